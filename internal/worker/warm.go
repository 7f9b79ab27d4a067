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

// Warming is how workers to come are started before their World is known.
type Warming struct {
	// Hook is put into the environment of the processes, by local rank, in place of variables of
	// the same names. With it a process waits on descriptor WarmFD, in place of being a worker:
	// it writes 'w' when it waits, reads the length (4 bytes) and the variables (each ends with a
	// zero byte) of the environment that it is to have, writes 'y' if it can have it, and begins
	// when it reads 'g'.
	Hook [][]string
	// Late reports whether a variable may have another value in the end.
	Late func(name string) bool
}

// WarmFD is the descriptor on which a process waits for its World.
const WarmFD = 3

// takeLimit is how long a process that waits may take to take its environment.
const takeLimit = time.Second

// warmOrder has the guardian start processes that wait.
type warmOrder struct {
	Start startOrder // of the workers, if they were started now
	Hook  [][]string
	Late  []string // names of variables that may have other values in the end
}

// Warm has processes for the workers of s started, which wait until Start. s is a guess at what
// Start will be given: a process that does not fit is ended then, and another one started.
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

// Waiting counts the processes that wait, and all that they started, and sums up their memory.
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

// warmChild is a process that waits.
type warmChild struct {
	pid     int
	order   workerOrder
	control int // descriptor
}

// standBy starts the processes that wait. Where one cannot be started it is started with the
// workers.
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

// overlay is env with hook in place of the variables of the same names.
func overlay(env, hook []string) []string {
	kept := slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.ContainsFunc(hook, func(h string) bool { return strings.HasPrefix(h, name+"=") })
	})
	return append(kept, hook...)
}

// hand makes the process that waits for local rank i the worker of an order. False: there is none,
// or it cannot be that worker; it is ended, and never becomes one.
func (g *guardian) hand(i int, w workerOrder, dir string) (pid int, ok bool) {
	if i >= len(g.warm) {
		return 0, false
	}
	c := g.warm[i]
	defer unix.Close(c.control)
	if dir == g.warmDir && g.fits(c.order, w) && c.take(w.Env) {
		return c.pid, true
	}
	syscall.Kill(-c.pid, syscall.SIGKILL) // not reaped, so the number is still its own
	syscall.Kill(c.pid, syscall.SIGKILL)
	return 0, false
}

// fits reports whether a process that was started for one order can be the worker of another:
// only variables that may come late differ.
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

// take hands its environment to a process that waits; false if it does not wait yet, cannot have
// it, or does not answer within takeLimit.
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
	for err == unix.EINTR { // a socket with a limit is not read again by the kernel
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
