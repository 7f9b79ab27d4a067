package worker

import (
	"encoding/gob"
	"encoding/json"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/internal/worker/output"
	"github.com/elasticd/elastic/internal/worker/proc"
)

// Guard is the guardian of one group: the body of the hidden command that
// Spec.Guardian names. It returns the exit status of the process.
//
// It is the parent of the workers and, as a subreaper, of everything that they
// leave behind. It lives until the agent hangs up and nothing is left; if the
// agent hangs up first, it kills at once.
func Guard() int {
	// Workers die with the thread that started them, so there is one, and it
	// is never given back.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 1
	}
	os.WriteFile("/proc/self/comm", []byte("guardian"), 0)

	// These signals are caught and dropped. An ignored signal would stay ignored in the workers;
	// SIGHUP is to, under nohup.
	thrown := make(chan os.Signal, 1)
	signal.Notify(thrown, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(thrown, syscall.SIGHUP)
	}
	child := make(chan os.Signal, 1)
	signal.Notify(child, syscall.SIGCHLD)

	conn := os.NewFile(wireFD, "agent")
	if conn == nil {
		return 1
	}
	g := &guardian{out: gob.NewEncoder(conn)}
	orders := receive(gob.NewDecoder(conn))
	first, ok := <-orders
	if ok && first.Warm != nil {
		g.standBy(first.Warm)
		first, ok = <-orders
	}
	switch {
	case ok && first.Start != nil:
		g.spec = first.Start
		keepOnly(g.spec)
		g.start()
	case g.spec != nil: // the agent is gone, and processes wait
		g.orphaned, g.killing, orders = time.Now(), true, nil
	default:
		return 1
	}
	g.run(child, orders)
	g.drain()
	proc.Cgroup(g.spec.Cgroup).Remove()
	return 0
}

// keepOnly closes what the agent inherited without wanting it (a shell's lock
// or pipe would live as long as the workers), and keeps the rest from them.
func keepOnly(s *startOrder) {
	ours := []int{wireFD, s.TTY}
	for _, w := range s.Workers {
		ours = append(ours, w.Out, w.Err)
	}
	for _, st := range s.Streams {
		ours = append(ours, st.Staged, st.Read)
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd < wireFD {
			continue
		}
		if slices.Contains(ours, fd) {
			syscall.CloseOnExec(fd)
			continue
		}
		// What this process opened itself is close-on-exec; what it was given is not.
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil &&
			flags&unix.FD_CLOEXEC == 0 {
			syscall.Close(fd)
		}
	}
}

// receive hands on the agent's orders. The channel is closed at end of file.
func receive(in *gob.Decoder) <-chan order {
	orders := make(chan order)
	go func() {
		defer close(orders)
		for {
			var o order
			if in.Decode(&o) != nil {
				return
			}
			orders <- o
		}
	}()
	return orders
}

// drain writes what the agent left in the pipes into the logs: nothing, unless
// it was killed.
func (g *guardian) drain() {
	for _, s := range g.spec.Streams {
		drainPipe(s.Staged, s.Log)
		drainPipe(s.Read, s.Log)
	}
}

// drainPipe ends when the pipe is empty: it is the agent's too, which made it
// non-blocking.
func drainPipe(fd int, path string) {
	var log *os.File
	buf := make([]byte, output.Chunk)
	for {
		n, err := syscall.Read(fd, buf)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		if log == nil {
			if log, err = output.OpenLog(path, os.O_WRONLY|os.O_APPEND); err != nil {
				return
			}
			defer log.Close()
		}
		if _, err := log.Write(buf[:n]); err != nil {
			return
		}
	}
}

// overSuffix makes the name of the drain file into that of a file that appears, before SIGTERM,
// when nothing can be saved any more. SIGTERM without either of them is not the agent's.
const overSuffix = ".over"

// writeDrain puts the drain file in place whole: it is being polled.
func writeDrain(path string, d Drain) error {
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	tmp := filepath.Join(filepath.Dir(path), ".drain")
	if err := os.WriteFile(tmp, append(data, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
