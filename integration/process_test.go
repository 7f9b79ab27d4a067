package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// process is a process of this machine.
type process struct {
	pid  int
	line string // its command line
}

// same reports whether these are the same processes. A shell that becomes another program is the
// same process.
func same(a, b []process) bool {
	return slices.EqualFunc(a, b, func(a, b process) bool { return a.pid == b.pid })
}

func (x process) String() string { return fmt.Sprintf("%d %s", x.pid, x.line) }

// signal sends s, if the number still belongs to that process.
func (x process) signal(s syscall.Signal) {
	fd, err := unix.PidfdOpen(x.pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if line, _ := cmdline(x.pid); line == x.line {
		_ = unix.PidfdSendSignal(fd, s, nil, 0) // an error: it has ended
	}
}

// alive reports whether a process runs, and is not a zombie.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func cmdline(pid int) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.TrimRight(strings.ReplaceAll(string(b), "\x00", " "), " "), err
}

// processes returns the processes for which want returns true.
func processes(want func(pid int, line string, environ []byte) bool) []process {
	var all []process
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(d))
		line, err := cmdline(pid)
		if err != nil || line == "" || !alive(pid) {
			continue
		}
		environ, _ := os.ReadFile(filepath.Join(d, "environ"))
		if want(pid, line, environ) {
			all = append(all, process{pid, line})
		}
	}
	return all
}

// left returns the processes that agents of this sandbox started, and their
// descendants: they have its directory in their environment. The local server
// does not have it.
func (p *sandbox) left() []process {
	mark := []byte("XDG_RUNTIME_DIR=" + filepath.Join(p.dir, "run") + "\x00")
	return processes(func(pid int, _ string, environ []byte) bool {
		return pid != os.Getpid() && bytes.Contains(append(environ, 0), mark)
	})
}

// servers returns the local servers of this sandbox.
func (p *sandbox) servers() []process {
	return processes(func(_ int, line string, _ []byte) bool {
		return strings.HasPrefix(line, filepath.Join(p.bin, "elasticd")) && strings.Contains(line, p.dir+"/")
	})
}

// localServer returns the local server that the runtime directory names.
func (p *sandbox) localServer() process {
	p.t.Helper()
	b, err := os.ReadFile(filepath.Join(p.dir, "run", "elastic", "elasticd.json"))
	if err != nil {
		p.t.Fatal(err)
	}
	var hint struct{ PID int }
	if err := json.Unmarshal(b, &hint); err != nil {
		p.t.Fatal(err)
	}
	line, err := cmdline(hint.PID)
	if err != nil || !strings.HasPrefix(line, filepath.Join(p.bin, "elasticd")) {
		p.t.Fatalf("the local server is said to be %d, which is %q (%v)", hint.PID, line, err)
	}
	return process{hint.PID, line}
}

// pidIn waits for a file with the number of a running process.
func pidIn(t testing.TB, path string) (pid int) {
	t.Helper()
	until(t, path+" names a process", func() error {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if pid, err = strconv.Atoi(strings.TrimSpace(string(b))); err != nil {
			return err
		}
		if !alive(pid) {
			return fmt.Errorf("%d does not run", pid)
		}
		return nil
	})
	return pid
}
