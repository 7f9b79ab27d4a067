package worker

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/internal/worker/output"
)

func TestOwn(t *testing.T) {
	t.Parallel()
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !allowed.IsSet(cpu) {
		cpu++
	}
	s := shell(t, 2, `echo "$0"; grep Cpus_allowed_list /proc/self/status`)
	s.Args = [][]string{slices.Concat(s.Argv[1:], []string{"first"}),
		slices.Concat(s.Argv[1:], []string{"second"})}
	s.CPUs = [][]int{{cpu}, nil}
	exitsOf(t, begin(t, s))
	first, second := body(read(t, s.Logs.Path(0))), body(read(t, s.Logs.Path(1)))
	if want := "first\nCpus_allowed_list:\t" + strconv.Itoa(cpu) + "\n"; first != want {
		t.Errorf("the bound one: %q, want %q", first, want)
	}
	if !strings.HasPrefix(second, "second\n") ||
		allowed.Count() > 1 && strings.HasSuffix(second, "\t"+strconv.Itoa(cpu)+"\n") {
		t.Errorf("the other: %q", second)
	}
}

// Rank 0 has begun when the others start.
func TestLead(t *testing.T) {
	t.Parallel()
	s := shell(t, 2, `cut -d' ' -f22 /proc/$$/stat`) // its start, in ticks of 10 ms
	s.Lead = 200 * time.Millisecond
	exitsOf(t, begin(t, s))
	at := func(local int) int {
		n, err := strconv.Atoi(strings.TrimSpace(body(read(t, s.Logs.Path(local)))))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if after := at(1) - at(0); after < 19 {
		t.Errorf("the second started %d ticks after the first", after)
	}
}

// The only worker has the terminal itself.
func TestTerminal(t *testing.T) {
	t.Parallel()
	master, tty := terminal(t)
	s := shell(t, 1, `test -t 0 && test -t 1 && test -t 2 && read line && echo "got $line"`)
	s.TTY = tty
	g := begin(t, s)
	if _, err := master.WriteString("hello\n"); err != nil {
		t.Fatal(err)
	}
	if e := exitsOf(t, g)[0]; e.Code != 0 {
		t.Fatalf("%+v", e)
	}
	if err := master.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	seen, b := "", make([]byte, 4096)
	for !strings.Contains(seen, "got hello") {
		n, err := master.Read(b)
		if seen += string(b[:n]); err != nil {
			t.Fatalf("on the terminal: %q, %v", seen, err)
		}
	}
	if two := shell(t, 2, "true"); true {
		two.TTY = tty
		if _, err := Start(t.Context(), two); err == nil {
			t.Error("two workers have one terminal")
		}
	}
}

// terminal is a new one and its other end.
func terminal(t *testing.T) (master, tty *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	conn, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	conn.Control(func(fd uintptr) {
		if n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN); err == nil {
			err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0)
		}
	})
	if err == nil {
		tty, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return master, tty
}

// The console has a prefix before each line; the copies have the lines with a word in them, of one
// stream.
func TestPrefixAndCopies(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	dir := filepath.Join(t.TempDir(), "log")
	s := shell(t, 2, `echo "apple $i"; echo "pear $i"; echo "apple on the other" >&2; printf "no end, apple"`)
	name := func(local, rank int) string { return "[default" + strconv.Itoa(local) + "]:" }
	s.Logs = openLogs(t, output.Options{Dir: dir, Console: &out, Show: func(local int) output.Std {
		if local == 1 {
			return output.Out
		}
		return output.None
	}, Label: name, Labelled: func(int) bool { return true }, CopyOut: []string{"apple", ""}})
	g := begin(t, s)
	exitsOf(t, g)
	<-g.Done()
	if err := s.Logs.Close(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff("[default1]:apple 1\n[default1]:pear 1\n[default1]:no end, apple\n",
		out.String()); d != "" {
		t.Errorf("console (-want +got)\n%s", d)
	}
	copied := read(t, filepath.Join(dir, "filtered_stdout.log"))
	for _, line := range []string{"[default0]:apple 0\n", "[default1]:apple 1\n",
		"[default0]:no end, apple\n"} {
		if strings.Count(copied, line) != 1 {
			t.Errorf("%q is not once in\n%s", line, copied)
		}
	}
	if strings.Contains(copied, "pear") || strings.Contains(copied, "other") {
		t.Errorf("copied:\n%s", copied)
	}
	if _, err := os.Stat(filepath.Join(dir, "filtered_stderr.log")); err == nil {
		t.Error("a copy that was not asked for")
	}
}
