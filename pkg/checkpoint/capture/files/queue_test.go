package files

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
)

// user is a notices that watches a directory.
type user struct {
	t    *testing.T
	n    *Notices
	tree dirfs.Reader
	dir  string
}

// use watches dir, with the notices of q.
func use(t *testing.T, q *Queue, dir string) *user {
	t.Helper()
	disk, err := dirfs.Make(dir)
	if err != nil {
		t.Fatal(err)
	}
	n := New(q)
	if n == nil {
		t.Fatal("the kernel gives no notices")
	}
	u := &user{t, n, n.Of(disk), dir}
	u.look(".")
	return u
}

func (u *user) look(names ...string) {
	u.t.Helper()
	u.n.Begin()
	for _, name := range names {
		if _, err := u.tree.ReadDir(name); err != nil {
			u.t.Fatal(err)
		}
	}
	if !u.n.All() {
		u.t.Fatal("not all directories are watched")
	}
}

func (u *user) write(name string) {
	u.t.Helper()
	if err := os.WriteFile(filepath.Join(u.dir, name), []byte("x"), 0o600); err != nil {
		u.t.Fatal(err)
	}
}

// noticed writes a file while Next waits, and expects the notice of that file alone.
func (u *user) noticed(name string) {
	u.t.Helper()
	came := u.n.Next()
	u.write(name)
	if _, open := <-came; !open {
		u.t.Fatal("the notices ended")
	}
	c := NewChanges()
	if u.n.Take(&c); len(c.Passes) != 1 || c.Passes[name].Count != 1 || c.Lost {
		u.t.Errorf("after a write of %s: %+v", name, c)
	}
}

func (u *user) close() {
	u.t.Helper()
	if err := u.tree.Close(); err != nil {
		u.t.Error(err)
	}
	if err := u.n.Close(); err != nil {
		u.t.Error(err)
	}
}

// queues returns the descriptors of the notice queues that this process has open.
func queues(t *testing.T) (all []string) {
	t.Helper()
	open, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range open {
		if is, _ := os.Readlink(fd); is == "anon_inode:inotify" {
			all = append(all, fd)
		}
	}
	return all
}

// watches returns how many directories these queues of this process watch.
func watches(t *testing.T, queues []string) (n int) {
	t.Helper()
	for _, fd := range queues {
		info, err := os.ReadFile("/proc/self/fdinfo/" + filepath.Base(fd))
		if err != nil {
			t.Fatal(err)
		}
		n += strings.Count(string(info), "inotify wd:")
	}
	return n
}

func newQueue(t *testing.T) *Queue {
	t.Helper()
	q := NewQueue()
	if q == nil {
		t.Fatal("the kernel gives no notices")
	}
	t.Cleanup(func() { q.Close() })
	return q
}

// Users one after the other have the descriptor of the queue, and none has notices of the one
// before.
func TestAQueueIsUsedAgain(t *testing.T) {
	q, dirs := newQueue(t), []string{t.TempDir(), t.TempDir()}
	before := queues(t)
	for _, dir := range []string{dirs[0], dirs[1], dirs[1], dirs[0]} {
		u := use(t, q, dir)
		if now := queues(t); !slices.Equal(now, before) {
			t.Fatalf("queues are open at %v, before at %v", now, before)
		}
		for _, other := range dirs {
			if other != dir {
				(&user{t: t, dir: other}).write("not watched")
			}
		}
		u.noticed("noticed")
		u.n.Next() // Close interrupts it
		u.close()
		if n := watches(t, before); n > 0 {
			t.Errorf("%d directories are watched after the end", n)
		}
	}
}

// A user has no notices that the one before did not read, even if the queue was full.
func TestAQueueThatWasNotRead(t *testing.T) {
	q, dir := newQueue(t), t.TempDir()
	limit, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	if err != nil {
		t.Fatal(err)
	}
	most, err := strconv.Atoi(strings.TrimSpace(string(limit)))
	if err != nil {
		t.Fatal(err)
	}
	for _, writes := range []int{1, most/2 + 1} { // each causes at least two notices
		u := use(t, q, dir)
		for i := range writes {
			u.write(fmt.Sprint("never read", i%2)) // Notices of one file that are alike become one
		}
		u.close()
		u = use(t, q, dir)
		u.noticed("noticed")
		u.close()
	}
}

// A user that finds the queue in use has one of its own. Neither has notices of the other, in
// whichever order they end. The next user has the queue again.
func TestAQueueInUse(t *testing.T) {
	for _, firstEnds := range []bool{true, false} {
		q, dir := newQueue(t), t.TempDir()
		before := len(queues(t))
		first, second := use(t, q, dir), use(t, q, dir)
		if now := len(queues(t)); now != before+1 {
			t.Fatalf("%d queues are open, and before %d", now, before)
		}
		ends, stays := first, second
		if !firstEnds {
			ends, stays = second, first
		}
		ends.noticed("a")
		stays.n.Take(nil)
		ends.close()
		stays.noticed("b")
		stays.close()
		third := use(t, q, dir)
		third.noticed("c")
		if now := len(queues(t)); now != before {
			t.Errorf("%d queues are open, and before %d", now, before)
		}
		third.close()
	}
}

// The limit of watches is that of one user, not of the queue.
func TestEachUserOfAQueueHasAllWatches(t *testing.T) {
	q, dir := newQueue(t), t.TempDir()
	names := make([]string, watchLimit-1)
	for i := range names {
		names[i] = fmt.Sprint("d", i)
		if err := os.Mkdir(filepath.Join(dir, names[i]), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		u := use(t, q, dir)
		u.look(names...)
		u.look(names...) // directories that are watched already
		u.noticed(names[len(names)-1] + "/a")
		if err := os.Mkdir(filepath.Join(dir, "over"), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := u.tree.ReadDir("over"); err != nil {
			t.Fatal(err)
		}
		if u.n.All() {
			t.Error("one directory more is watched too")
		}
		if err := os.Remove(filepath.Join(dir, "over")); err != nil {
			t.Fatal(err)
		}
		u.close()
	}
}

// A queue that is closed while it is used gives no more notices. A user that comes later has one of
// its own.
func TestAQueueIsClosed(t *testing.T) {
	q, dir := newQueue(t), t.TempDir()
	u := use(t, q, dir)
	came := u.n.Next()
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	for range came { // until it is closed
	}
	u.close()
	later := use(t, q, dir)
	later.noticed("a")
	later.close()
	var none *Queue
	if err := none.Close(); err != nil {
		t.Error(err)
	}
}
