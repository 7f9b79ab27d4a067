package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// Only the network between rank 0 and the node with its copies is cut. The training goes on. Saves
// after the cut are committed at once, although a connection from before the cut is probed again
// only 25 s after it began.
func TestCutFromTheCopies(t *testing.T) {
	t.Parallel()
	l := newTestbed(t, "a", "b", "c", "d")
	w := l.audit("x")
	l.line = []string{"--np=3", "--job-id=x", "--batch-size=240", "--lr=0.1", "--scaling=fixed-batch",
		"train", "--step-sleep=20ms", "--save-every=300ms", "--steps=1000000"}
	for _, name := range l.names[1:] {
		l.again(name)
	}
	w.reaches(t, limit, "a world runs", func() error {
		if w.world == nil || w.world.Phase != rendezvous.Running {
			return fmt.Errorf("%+v", w.world)
		}
		return nil
	})
	l.again("a") // a spare, with the first name: the copies go to it
	l.trains(w, 3, 0)
	zero, before := w.zero(), l.crew()
	copied := func(after int64) func() error {
		return func() error {
			if w.head.Rev <= after || !slices.ContainsFunc(w.head.Holders,
				func(r membership.Ref) bool { return r.Node == "a" }) {
				return fmt.Errorf("the newest checkpoint is %+v", w.head)
			}
			return nil
		}
	}
	w.reaches(t, limit, "copies on a", copied(w.mark(t)))
	at := slices.IndexFunc(everyKind, func(k kind) bool { return k.name == "cut between" })
	f := fault{kind: everyKind[at], hits: []string{zero, "a"}, lasts: 14 * time.Second}
	l.suffer([]fault{f})
	healed, rev := time.Now(), w.mark(t)
	w.reaches(t, 40*time.Second, "copies on a again", copied(rev)) // half a minute others are asked first
	t.Logf("%v: copies again %s after it", f, time.Since(healed).Round(time.Millisecond))
	l.judge([]fault{f}, before, nil, nil)
	w.holds(t)
}

// One of two nodes is cut off from the server, so the commits of the other one have one copy. The
// newest checkpoint with two copies is kept, and the cut off node gets the newer ones as well,
// because it still answers its peer. Then the machine of the only holder is lost with its disk. No
// checkpoint of the job is lost.
func TestTheOnlyHolderIsLost(t *testing.T) {
	t.Parallel()
	l := newTestbed(t, "a", "b", "c", "d")
	w := l.audit("x")
	l.line = []string{"--np=2", "--job-id=x", "--keep=1", "--batch-size=240", "--lr=0.1",
		"--scaling=fixed-batch", "train", "--step-sleep=10ms", "--save-every=700ms", "--steps=1000000"}
	l.again("a")
	l.again("b")
	commits := func(after, copies int) (head checkpoint.Head) {
		t.Helper()
		w.reaches(t, limit, fmt.Sprintf("a commit after %d with %d copies", after, copies), func() error {
			if head = w.head; int(head.Number) <= after || head.Copies != copies {
				return fmt.Errorf("the newest checkpoint is %+v", head)
			}
			return nil
		})
		return head
	}
	commits(1, 2)
	lost, left := w.zero(), "b"
	if lost == "b" {
		left = "a"
	}
	sever(theServer, both)(l, []string{left})
	head := commits(int(commits(0, 1).Number)+1, 1)
	until(t, left+" has the newest checkpoint", func() error {
		newest := func() error {
			w.mark(t)
			w.look(func() { head = w.head })
			return l.has(left, head)
		}
		if err := newest(); err != nil {
			return err
		}
		// no newer commit comes after the look
		frozen := l.signal(syscall.SIGSTOP, []string{lost}, (*testbed).on)
		err := newest()
		if err != nil {
			for _, x := range frozen {
				x.signal(syscall.SIGCONT)
			}
		}
		return err
	})
	l.signal(syscall.SIGKILL, []string{lost}, (*testbed).on)
	if err := os.RemoveAll(filepath.Join(l.dir, "state", lost)); err != nil {
		t.Fatal(err)
	}
	double := ""
	for _, e := range w.since(0, history.Committed) {
		if name, _, _ := strings.Cut(e.Text, " committed"); strings.HasSuffix(e.Text, ": 2 copies") {
			double = name
		}
	}
	for _, e := range w.since(0, history.Deleted) {
		if strings.HasPrefix(e.Text, double+" ") {
			t.Errorf("it was the newest one with two copies: %s", e.Text)
		}
	}
	l.heal(left, "server")
	l.heal("server", left)
	l.again("c")
	w.reaches(t, limit, "generation 2 commits", func() error {
		if w.head.Generation < 2 {
			return fmt.Errorf("the newest checkpoint is %+v", w.head)
		}
		return nil
	})
	w.look(func() {
		if from := w.resumes[2]; from != *head.Step {
			t.Errorf("generation 2 goes on from step %d, want %d", from, *head.Step)
		}
	})
	w.holds(t)
	// A new machine fetches the newest checkpoint from the holders.
	l.ends(l.start("nsenter", l.inside("d", filepath.Join(bin, "elastic"), "ckpt", "get", "x", "got",
		"--server="+l.addr["server"]+":2379", "--state-dir="+filepath.Join(l.dir, "state", "d"))...), 0)
	if files, err := filepath.Glob(l.path("got", "step-*", "state.json")); err != nil || len(files) != 1 {
		t.Errorf("got %v (%v)", files, err)
	}
}

// has returns nil if the disk of a machine has a checkpoint.
func (l *testbed) has(name string, head checkpoint.Head) error {
	l.t.Helper()
	files, err := filepath.Glob(
		filepath.Join(l.dir, "state", name, "*", "nodes", name, "jobs/x/store/manifests",
			head.Manifest.String()))
	if err != nil {
		l.t.Fatal(err)
	}
	if len(files) == 0 {
		return fmt.Errorf("checkpoint %d is not on %s", head.Number, name)
	}
	return nil
}
