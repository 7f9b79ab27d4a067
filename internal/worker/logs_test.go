package worker

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/internal/worker/output"
)

// words collects notices.
type words struct {
	mu   sync.Mutex
	said []string
}

func (w *words) notice(s string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, s)
}

func (w *words) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.said...)
}

// logged is a shell group with logs of its own kind.
func logged(t *testing.T, n int, script string, o output.Options) Spec {
	t.Helper()
	s := shell(t, n, script)
	s.Logs.Close(context.Background())
	if o.Dir == "" {
		o.Dir = s.Logs.Dir()
	}
	s.Logs = openLogs(t, o)
	return s
}

func runToEnd(t *testing.T, s Spec) {
	t.Helper()
	g := begin(t, s)
	select {
	case <-g.Done():
	case <-deadline(t).Done():
		t.Fatal("the group never ended")
	}
}

func seq(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

func TestHeaderAndAppend(t *testing.T) {
	t.Parallel()
	s := shell(t, 2, `printf "no line end"`)
	s.Node, s.Generation, s.Ranks, s.WorldSize = "b", 2, []int{2, 3}, 4
	runToEnd(t, s)
	s.Generation, s.Waits = 3, true
	runToEnd(t, s)
	s.Waits = false
	runToEnd(t, s)
	waits := `---- elastic: since generation 3, waiting worker, node b, job j, \S{24} ----` + "\n"
	const moment = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`
	header := `---- elastic: generation %d, rank 3, world size 4, node b, job j, ` + moment + ` ----` + "\n"
	want := regexp.MustCompile("^" + fmt.Sprintf(header, 2) + "no line end\n" + waits +
		"no line end\n" + fmt.Sprintf(header, 3) + "no line end$")
	if got := read(t, s.Logs.Path(1)); !want.MatchString(got) {
		t.Errorf("%q", got)
	}
	for path, mode := range map[string]os.FileMode{s.Logs.Dir(): 0o700, s.Logs.Path(1): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
	}
	if entries, _ := os.ReadDir(s.Logs.Dir()); len(entries) != 4 {
		t.Errorf("more than logs and their indexes in the log directory: %v", entries)
	}
}

func TestLongLine(t *testing.T) {
	t.Parallel()
	const size = 64 << 20
	var console counter
	s := logged(t, 1, fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x; echo; echo after`, size),
		output.Options{Console: &console, Show: func(int) output.Std { return output.Both }})
	runToEnd(t, s)
	log := body(read(t, s.Logs.Path(0)))
	if want := size + len("\nafter\n"); len(log) != want || strings.Trim(log[:size], "x") != "" ||
		!strings.HasSuffix(log, "x\nafter\n") {
		t.Errorf("log has %d bytes, want %d", len(log), want)
	}
	s.Logs.Close(deadline(t))
	if want := size + len("\nafter\n"); console.n != want {
		t.Errorf("console has %d bytes, want %d", console.n, want)
	}
}

type counter struct{ n int }

func (c *counter) Write(p []byte) (int, error) { c.n += len(p); return len(p), nil }

func TestRotation(t *testing.T) {
	t.Parallel()
	const rotate = 10 << 10
	s := logged(t, 1, `j=1; while test $j -le 5000; do printf "1"; printf "%s\n" $j; j=$((j+1)); done`,
		output.Options{Rotate: rotate})
	run := func() {
		t.Helper()
		g := begin(t, s)
		if e := exitsOf(t, g)[0]; e.Code != 0 {
			t.Fatalf("%+v", e)
		}
		<-g.Done()
	}
	run()
	first := output.LastRotated(s.Logs.Path(0))
	s.Logs.Close(deadline(t))
	dir := s.Logs.Dir()
	if s.Logs = openLogs(t, output.Options{Dir: dir, Rotate: rotate}); s.Logs.Dir() != dir {
		t.Fatal("the directory was not given back")
	}
	run()
	if first < 1 || output.LastRotated(s.Logs.Path(0)) <= first {
		t.Fatalf("%d files, then %d", first, output.LastRotated(s.Logs.Path(0)))
	}
	var all strings.Builder
	for n := 1; n <= output.LastRotated(s.Logs.Path(0)); n++ {
		part := read(t, fmt.Sprintf("%s.%d", s.Logs.Path(0), n))
		if !strings.HasSuffix(part, "\n") || len(part) < rotate {
			t.Errorf("file %d: %d bytes, or not whole lines", n, len(part))
		}
		all.WriteString(part)
	}
	if last, err := os.ReadFile(s.Logs.Path(0)); err == nil { // not there right after a rotation
		all.Write(last)
	}
	var want strings.Builder
	for range 2 {
		for j := 1; j <= 5000; j++ {
			fmt.Fprintf(&want, "1%d\n", j)
		}
	}
	if body(all.String()) != want.String() {
		t.Error("lines are missing")
	}
}

func TestRotationKeeps(t *testing.T) {
	t.Parallel()
	s := logged(t, 1, `j=0; while test $j -lt 10; do seq 1 2000; read x < go$j; j=$((j+1)); done`,
		output.Options{Rotate: 4 << 10, Keep: 2})
	var gates []func()
	for j := range 10 {
		gates = append(gates, gate(t, s, fmt.Sprintf("go%d", j)))
	}
	g := begin(t, s)
	for j, open := range gates {
		eventually(t, "part is rotated", func() bool { return output.LastRotated(s.Logs.Path(0)) > j })
		open()
	}
	<-g.Done()
	last := output.LastRotated(s.Logs.Path(0))
	rotated, _ := filepath.Glob(s.Logs.Path(0) + ".*")
	if last < 3 || len(rotated) != 2 {
		t.Errorf("last is %d, there are %v", last, rotated)
	}
}

// A line much longer than the limit is cut: a log without line ends must not
// fill the disk with one file.
func TestRotationWithoutLines(t *testing.T) {
	t.Parallel()
	s := logged(t, 1, `head -c 4000000 /dev/zero | tr '\0' x`, output.Options{Rotate: 1 << 20})
	runToEnd(t, s)
	total := 0
	files, _ := filepath.Glob(s.Logs.Path(0) + "*")
	for _, f := range files {
		text := read(t, f)
		total += strings.Count(text, "x")
		if len(text) > 2<<20+5*output.Chunk {
			t.Errorf("%s has %d bytes", f, len(text))
		}
	}
	if total != 4000000 || len(files) < 2 {
		t.Errorf("%d bytes in %d files", total, len(files))
	}
}

// A full disk, by a limit on the size of files. The limit holds for a whole
// process and for each file it writes, those of package testing too: so the
// test is a process of its own.
func TestFullDisk(t *testing.T) {
	const alone = "ELASTIC_TEST_FULL_DISK"
	if os.Getenv(alone) == "" {
		t.Parallel()
		child := exec.Command(os.Args[0], "-test.run=^TestFullDisk$", "-test.timeout=2m")
		child.Env = append(os.Environ(), alone+"=1")
		if out, err := child.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	var w words
	var console bytes.Buffer
	s := logged(t, 1, `seq 1 100000; echo > written; read x < fifo; seq 100001 100010; echo end`,
		output.Options{Notice: w.notice, Console: &console,
			Show: func(int) output.Std { return output.Both }})
	open := gate(t, s, "fifo")
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE,
		&syscall.Rlimit{Cur: 100_000, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	g := begin(t, s)
	eventually(t, "worker is not stalled",
		func() bool { _, err := os.Stat(s.Dir + "/written"); return err == nil })
	eventually(t, "notice", func() bool { return len(w.all()) == 1 })
	syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old)
	open()
	if e := exitsOf(t, g)[0]; e.Code != 0 || !strings.HasSuffix(string(e.Tail), "100010\nend\n") {
		t.Errorf("%+v", e)
	}
	<-g.Done()
	s.Logs.Close(deadline(t))

	want := seq(1, 100010) + "end\n"
	if console.String() != want {
		t.Error("console is not whole")
	}
	log := read(t, s.Logs.Path(0))
	log = log[strings.IndexByte(log, '\n')+1:] // header
	before, after, ok := strings.Cut(log, "---- elastic: ")
	var missing int
	if _, err := fmt.Sscanf(after, "%d bytes are missing here", &missing); !ok || err != nil || missing == 0 {
		t.Fatalf("no word of what is missing: %q", log[max(0, len(log)-300):])
	}
	after = after[strings.IndexByte(after, '\n')+1:]
	whole := func(before string) bool {
		return strings.HasPrefix(want, before) && want[len(before)+missing:] == after
	}
	if !whole(before) && !whole(strings.TrimSuffix(before, "\n")) { // a cut line was ended for the note
		t.Errorf("%d bytes, %d missing, then %q", len(before), missing, after)
	}
	if said := w.all(); len(said) != 2 || !strings.Contains(said[0], "cannot write") ||
		!strings.Contains(said[1], fmt.Sprint(missing)) {
		t.Errorf("notices: %q", said)
	}
}

// A user removes or truncates the log while the worker writes.
func TestLogRemovedOrTruncated(t *testing.T) {
	t.Parallel()
	s := shell(t, 1, `for part in 1 2 3; do seq 1 1000; echo part $part; read x < go$part; done`)
	one, two, three := gate(t, s, "go1"), gate(t, s, "go2"), gate(t, s, "go3")
	g := begin(t, s)
	said(t, s.Logs, 0, "part 1")
	if err := os.Truncate(s.Logs.Path(0), 0); err != nil {
		t.Fatal(err)
	}
	one()
	said(t, s.Logs, 0, "part 2")
	if got := read(t, s.Logs.Path(0)); got != seq(1, 1000)+"part 2\n" {
		t.Errorf("after truncation: %d bytes", len(got))
	}
	if err := os.Remove(s.Logs.Path(0)); err != nil {
		t.Fatal(err)
	}
	two()
	said(t, s.Logs, 0, "part 3")
	if got := read(t, s.Logs.Path(0)); got != seq(1, 1000)+"part 3\n" {
		t.Errorf("after removal: %d bytes", len(got))
	}
	three()
	<-g.Done()
}

func TestTailIsTheEndOfTheOutput(t *testing.T) {
	t.Parallel()
	// a process that keeps the pipe open does not delay the report
	s := shell(t, 1, `setsid sleep 1000 & seq 1 100000; exit 3`)
	g := begin(t, s)
	if e := exitsOf(t, g)[0]; len(e.Tail) != 16<<10 || !strings.HasSuffix(seq(1, 100000), string(e.Tail)) {
		t.Errorf("%q", e.Tail)
	}
}

// The pipe is open elsewhere, outside of the group.
func TestDoneDoesNotWaitForStrangers(t *testing.T) {
	t.Parallel()
	s := shell(t, 1, `echo up; exec sleep 1000`)
	g := begin(t, s)
	said(t, s.Logs, 0, "up")
	pipe, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/1", g.PIDs()[0]), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	if err := g.Stop(deadline(t), 0); err != nil {
		t.Fatal(err)
	}
}

func TestLogDirectoryIsShared(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "log")
	for _, want := range []string{dir, dir + "/lab1", dir + "/lab1-2", dir + "/lab1-3"} {
		if got := openLogs(t, output.Options{Dir: dir, Node: "lab1"}).Dir(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	other := t.TempDir()
	first := openLogs(t, output.Options{Dir: other, Node: "a"})
	first.Close(context.Background())
	if got := openLogs(t, output.Options{Dir: other, Node: "b"}).Dir(); got != other {
		t.Errorf("%s after the first was closed", got)
	}
}

// The lock of an agent that is killed goes with it, while its guardian and
// workers may still be there.
func TestLogDirectoryIsGivenBackByDeath(t *testing.T) {
	t.Parallel()
	s := shell(t, 1, `exec sleep 1000`)
	dir := s.Logs.Dir()
	a := runAgent(t, s)
	signalPID(t, a.guardian, syscall.SIGSTOP)
	a.cmd.Process.Kill()
	a.cmd.Wait()
	if got := openLogs(t, output.Options{Dir: dir, Node: "a"}).Dir(); got != dir {
		t.Error(got)
	}
}

func TestLogDirectoryErrors(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, file + "/log", "/proc/log"} {
		if l, err := output.Open(output.Options{Dir: dir}); err == nil {
			t.Errorf("%s can be used", dir)
			l.Close(context.Background())
		}
	}
}

func TestRecords(t *testing.T) {
	t.Parallel()
	all := ""
	l := openLogs(t, output.Options{Dir: t.TempDir()})
	for _, endpoints := range [][]string{{"10.0.0.1:41001", "10.0.0.2:42001"}, {"10.0.0.2:42002"}} {
		want := strings.Join(endpoints, "\n") + "\n"
		if err := l.Write("endpoints.log", []byte(want)); err != nil {
			t.Fatal(err)
		}
		if err := l.Append("envlog.0", []byte(want)); err != nil {
			t.Fatal(err)
		}
		all += want
		if got := read(t, filepath.Join(l.Dir(), "endpoints.log")); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := read(t, filepath.Join(l.Dir(), "envlog.0")); got != all {
		t.Errorf("appended: %q, want %q", got, all)
	}
	if entries, _ := os.ReadDir(l.Dir()); len(entries) != 2 {
		t.Errorf("%v", entries)
	}
}

// In a directory that others may write to, a link or a pipe in the place of a log leads elsewhere.
func TestLogsFollowNoLinks(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(at, victim string) error{
		"symbolic link": func(at, victim string) error { return os.Symlink(victim, at) },
		"dangling link": func(at, victim string) error { return os.Symlink(victim+".new", at) },
		"pipe":          func(at, _ string) error { return unix.Mkfifo(at, 0o600) },
		"device":        func(at, _ string) error { return os.Symlink("/dev/zero", at) },
		"second name":   func(at, victim string) error { return os.Link(victim, at) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			victim := filepath.Join(t.TempDir(), "victim")
			if err := os.WriteFile(victim, []byte("mine\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			said := &words{}
			s := logged(t, 1, "echo out", output.Options{Notice: said.notice})
			dir := s.Logs.Dir()
			for _, file := range []string{"workerlog.0", ".endpoints.log", "envlog.0", ".run", ".run~"} {
				at := filepath.Join(dir, file)
				_ = os.Remove(at)
				if err := plant(at, victim); err != nil {
					t.Fatal(err)
				}
			}
			runToEnd(t, s)
			if err := s.Logs.Append("envlog.0", []byte("x")); err == nil {
				t.Error("envlog.0 was written through what was in its place")
			}
			if err := s.Logs.Adopt("run"); err != nil || read(t, filepath.Join(dir, ".run")) != "run\n" {
				t.Errorf("whose logs these are: %v", err)
			}
			if err := s.Logs.Write("endpoints.log", []byte("10.0.0.1:1\n")); err != nil {
				t.Error(err)
			}
			if err := s.Logs.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if got := read(t, victim); got != "mine\n" {
				t.Errorf("the file that was linked to has %q", got)
			}
			if _, err := os.Stat(victim + ".new"); err == nil {
				t.Error("the file that was linked to was made")
			}
			if all := said.all(); len(all) == 0 || !strings.Contains(all[0], "workers go on") {
				t.Errorf("it was not reported: %q", all)
			}
			if read(t, filepath.Join(dir, "endpoints.log")) != "10.0.0.1:1\n" {
				t.Error("endpoints.log was not written")
			}
		})
	}
}
