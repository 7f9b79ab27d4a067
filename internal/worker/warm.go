package worker

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/elasticd/elastic/internal/worker/proc"
	"golang.org/x/sys/unix"
)

// Warming says how warm workers are started.
type Warming struct {
	// Hook has variables for each warm worker, by local rank, which replace variables of the same
	// names. With them a process does not run the script yet, but waits on descriptor WarmFD: it
	// writes 'w' when it waits. It reads a length (4 bytes) and its final variables (each ends with
	// a zero byte). It writes 'y' if it can use them, and starts when it reads 'g'.
	Hook [][]string
	// Late reports whether a variable may change between Warm and Start.
	Late func(name string) bool
}

// WarmFD is the descriptor on which a warm worker waits for its world.
const WarmFD = 3

// takeLimit is how long a warm worker may take to accept its environment.
const takeLimit = time.Second

// warmOrder tells the guardian to start warm workers.
type warmOrder struct {
	Start startOrder // of the workers as if they started now
	Hook  [][]string
	Late  []string // names of variables that may change until Start
}

// Warm starts warm workers for the group s. They wait until Start. s is a guess of the argument of
// Start: a warm worker that does not fit it is killed, and a new process is started.
func (p *Prepared) Warm(s Spec, w Warming) error {
	g := p.g
	if err := s.check(); err != nil {
		return err
	}
	if len(s.Env) != len(g.ends) || s.TTY != nil || g.warm {
		return fmt.Errorf("start processes that wait: %w", os.ErrInvalid)
	}
	var err error
	if s.Dir, err = filepath.Abs(s.Dir); err != nil {
		return fmt.Errorf("find directory: %w", err)
	}
	if !s.NoCgroup {
		g.cgroup = proc.NewCgroup(s.Mark.Cgroup() + g.id)
	}
	late := map[string]bool{}
	for _, env := range s.Env {
		for _, kv := range env {
			if name, _, _ := strings.Cut(kv, "="); w.Late(name) {
				late[name] = true
			}
		}
	}
	g.warm = true
	return g.send(order{Warm: &warmOrder{Start: *g.order(s), Hook: w.Hook, Late: sortedNames(late)}})
}

func sortedNames(set map[string]bool) (names []string) {
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Waiting returns the number of the warm workers and their descendants, and their memory.
func (p *Prepared) Waiting() (n int, bytes int64) {
	all, err := proc.All()
	if err != nil {
		return 0, 0
	}
	for _, x := range proc.Below(all, func(x proc.Process) bool { return x.Parent == p.g.guardian.Pid }) {
		if !x.Gone() {
			n++
			bytes += proc.Resident(x.PID)
		}
	}
	return n, bytes
}

// warmChild is a warm worker.
type warmChild struct {
	pid     int
	order   workerOrder
	control int // descriptor
}

// standBy starts the warm workers. If one cannot be started, it and the rest are started by start.
func (g *guardian) standBy(o *warmOrder) {
	g.spec, g.late, g.warmDir = &o.Start, o.Late, o.Start.Dir
	keepOnly(&o.Start)
	cg := g.openCgroup()
	if cg >= 0 {
		defer syscall.Close(cg)
	}
	null, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer syscall.Close(null)
	for i, w := range o.Start.Workers {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return
		}
		hooked := w
		hooked.Env = overlay(w.Env, o.Hook[i])
		pid, err := g.spawn(hooked, []int{null, w.Out, w.Err, pair[1]}, cg)
		unix.Close(pair[1])
		if err != nil {
			unix.Close(pair[0])
			return
		}
		limit := unix.NsecToTimeval(takeLimit.Nanoseconds())
		_ = unix.SetsockoptTimeval(pair[0], unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit)
		_ = unix.SetsockoptTimeval(pair[0], unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit)
		g.warm = append(g.warm, warmChild{pid: pid, order: w, control: pair[0]})
	}
}

// overlay returns env with the variables of hook, which replace those of the same names.
func overlay(env, hook []string) []string {
	kept := slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.ContainsFunc(hook, func(h string) bool { return strings.HasPrefix(h, name+"=") })
	})
	return append(kept, hook...)
}

// adoptWarm turns the warm worker of local rank i into the worker w. ok is false if there is none, or if
// it does not fit w; it is then killed.
func (g *guardian) adoptWarm(i int, w workerOrder, dir string) (pid int, ok bool) {
	if i >= len(g.warm) {
		return 0, false
	}
	c := g.warm[i]
	defer unix.Close(c.control)
	if dir == g.warmDir && g.fits(c.order, w) && c.take(w.Env) {
		return c.pid, true
	}
	syscall.Kill(-c.pid, syscall.SIGKILL) // it is not reaped yet, so the pid is still its own
	syscall.Kill(c.pid, syscall.SIGKILL)
	return 0, false
}

// fits reports whether the warm worker of order was can become that of order is: only variables in
// late may differ.
func (g *guardian) fits(was, is workerOrder) bool {
	early := func(env []string) []string {
		kept := slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
			name, _, _ := strings.Cut(kv, "=")
			return slices.Contains(g.late, name)
		})
		slices.Sort(kept)
		return kept
	}
	return slices.Equal(was.Argv, is.Argv) && slices.Equal(was.CPUs, is.CPUs) &&
		was.Out == is.Out && was.Err == is.Err && slices.Equal(early(was.Env), early(is.Env))
}

// take sends env to a warm worker. It returns false if the worker does not wait yet, refuses, or
// does not answer within takeLimit.
func (c warmChild) take(env []string) bool {
	var b [1]byte
	if n, _, err := unix.Recvfrom(c.control, b[:], unix.MSG_DONTWAIT); err != nil || n != 1 || b[0] != 'w' {
		return false
	}
	variables := strings.Join(env, "\x00") + "\x00"
	message := binary.BigEndian.AppendUint32(nil, uint32(len(variables)))
	message = append(message, variables...)
	if writeAll(c.control, message) != nil {
		return false
	}
	n, err := unix.Read(c.control, b[:])
	for err == unix.EINTR { // the kernel does not restart reads of a socket with a time limit
		n, err = unix.Read(c.control, b[:])
	}
	if err != nil || n != 1 || b[0] != 'y' {
		return false
	}
	return writeAll(c.control, []byte{'g'}) == nil
}

func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.SendmsgN(fd, b, nil, nil, unix.MSG_NOSIGNAL)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
