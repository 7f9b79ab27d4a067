package worker

import (
	"encoding/gob"
	"encoding/json"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/internal/logs"
	"github.com/elasticd/elastic/internal/regular"
	"github.com/elasticd/elastic/internal/worker/output"
	"github.com/elasticd/elastic/internal/worker/proc"
)

// Guard runs the guardian of one group: it is the body of the hidden command in Spec.Guardian. It
// returns the exit status of the process. The guardian is the parent of the workers. As a subreaper
// it becomes the parent of all processes that they leave. It ends when the agent has closed the
// socket and no process is left. If the agent ends first, it kills all of them at once.
func Guard() int {
	// A worker dies with the thread that started it (PR_SET_PDEATHSIG), so one thread starts all of
	// them and never ends.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 1
	}
	os.WriteFile("/proc/self/comm", []byte("guardian"), 0)

	// These signals are caught and dropped, because workers would inherit an ignored signal. SIGHUP
	// stays ignored under nohup, and the workers inherit that.
	dropped := make(chan os.Signal, 1)
	signal.Notify(dropped, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(dropped, syscall.SIGHUP)
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
	case g.spec != nil: // the agent has ended, and warm workers wait
		g.orphaned, g.killing, orders = time.Now(), true, nil
	default:
		return 1
	}
	g.run(child, orders)
	g.drain()
	proc.Cgroup(g.spec.Cgroup).Remove()
	return 0
}

// keepOnly closes files that the guardian inherited by accident, because a lock or a pipe of a
// shell would stay open. It keeps the files of s from being inherited by the workers.
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
		// Files that this process opened are close-on-exec; inherited ones are not.
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil &&
			flags&unix.FD_CLOEXEC == 0 {
			syscall.Close(fd)
		}
	}
}

// receive returns a channel with the agent's orders. It is closed when the agent closes the socket.
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

// drain writes the bytes that the agent left in the pipes into the logs. Bytes are left only if the
// agent was killed.
func (g *guardian) drain() {
	for _, s := range g.spec.Streams {
		drainPipe(s.Staged, s.Log)
		drainPipe(s.Read, s.Log)
	}
}

// drainPipe writes the content of a pipe to the log at path. Its end is non-blocking, so it stops
// when the pipe is empty.
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
			if log, err = regular.Write(path, os.O_WRONLY|os.O_APPEND); err != nil {
				return
			}
			defer log.Close()
			var times logs.LineIndex
			defer times.Close()
			if info, err := log.Stat(); err == nil {
				times.Mark(path, info.Size(), time.Now())
			}
		}
		if _, err := log.Write(buf[:n]); err != nil {
			return
		}
	}
}

// overSuffix is added to the name of the drain file. The guardian writes that file before a SIGTERM
// after which nothing can be saved. Without either file, SIGTERM is not from the agent.
const overSuffix = ".over"

// writeDrain writes the drain file atomically, because workers poll it.
func writeDrain(path string, d Drain) error {
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return regular.Replace(path, append(data, '\n'))
}
