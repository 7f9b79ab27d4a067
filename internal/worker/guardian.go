package worker

import (
	"encoding/gob"
	"errors"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/internal/regular"

	"github.com/elasticd/elastic/internal/worker/proc"
)

// guardian is owned by the goroutine of Guard.
type guardian struct {
	out     *gob.Encoder
	spec    *startOrder
	workers []child

	warm    []warmChild // warm workers, by local rank
	warmDir string      // the directory in which they were started
	late    []string    // names of variables that may change until Start

	asked    bool      // workers were asked to save
	stopping bool      // SIGTERM was sent, or workers were asked; deadline is set
	deadline time.Time // the end of the grace
	killing  bool      // SIGKILL is sent to all processes until none is left
	empty    bool      // no process is left
	orphaned time.Time // when the agent closed the socket
}

type child struct {
	pid   int
	alone bool // it catches or ignores SIGTERM, so its helpers do not extend the grace
	ended bool
}

// start starts the workers, and reports it. If one cannot be started the others are killed.
func (g *guardian) start() {
	cg := g.openCgroup()
	if cg >= 0 {
		defer syscall.Close(cg)
	}
	null, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		g.fail(err)
		return
	}
	defer syscall.Close(null)

	if g.spec.TTY != 0 {
		null = g.spec.TTY
	}
	up := make([]started, 0, len(g.spec.Workers))
	led := false
	for i, w := range g.spec.Workers {
		if w.Rank != 0 && !led && g.spec.Lead > 0 {
			led = true
			<-time.After(g.spec.Lead)
		}
		pid, ok := g.adoptWarm(i, w, g.spec.Dir)
		if !ok {
			pid, err = g.spawn(w, []int{null, w.Out, w.Err}, cg)
		}
		if err != nil {
			g.fail(err)
			break
		}
		g.workers = append(g.workers, child{pid: pid})
		p, _ := proc.Find(pid)
		up = append(up, started{PID: pid, Start: p.Start})
	}
	for _, w := range g.spec.Workers { // so that the agent sees the end of the output
		syscall.Close(w.Out)
		if w.Err != w.Out {
			syscall.Close(w.Err)
		}
	}
	if !g.killing {
		g.out.Encode(report{Started: up})
	}
}

func (g *guardian) fail(err error) {
	f := failed{Text: err.Error()}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		f.Errno = int(errno)
	}
	g.out.Encode(report{Failed: &f})
	g.killing = true
}

// openCgroup opens the group's cgroup for spawn; -1: there is none.
func (g *guardian) openCgroup() int {
	if g.spec.Cgroup == "" {
		return -1
	}
	fd, err := syscall.Open(g.spec.Cgroup, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
}

// spawn starts one process with files, inside the cgroup if possible. Some kernels and containers
// forbid that, so it tries again without the cgroup.
func (g *guardian) spawn(w workerOrder, files []int, cg int) (int, error) {
	restore, err := bind(w.CPUs)
	if err != nil {
		return 0, err
	}
	defer restore()
	open := make([]uintptr, len(files))
	for i, fd := range files {
		open[i] = uintptr(fd)
	}
	attr := &syscall.ProcAttr{
		Dir:   g.spec.Dir,
		Env:   w.Env,
		Files: open,
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, UseCgroupFD: cg >= 0,
			CgroupFD: cg},
	}
	pid, err := syscall.ForkExec(w.Argv[0], w.Argv, attr)
	if err != nil && cg >= 0 {
		attr.Sys.UseCgroupFD = false
		pid, err = syscall.ForkExec(w.Argv[0], w.Argv, attr)
	}
	return pid, err
}

// run reaps children, carries out orders and kills, until no process is left and the agent has
// closed the socket.
func (g *guardian) run(childEnded <-chan os.Signal, orders <-chan order) {
	again := 2 * time.Millisecond // pause before the next round of kills; a process in D state ends late
	for {
		g.reap()
		if g.empty && !g.orphaned.IsZero() {
			return
		}
		var timer <-chan time.Time
		switch {
		case g.empty:
		case g.killing:
			g.out.Encode(report{Killing: true})
			g.kill()
			timer = time.After(again)
			again = min(2*again, 100*time.Millisecond)
		case g.stopping && (g.allEnded() || !time.Now().Before(g.deadline)):
			g.killing = true
			continue
		case g.stopping: // only its parent is notified when a grandchild ends
			timer = time.After(min(time.Until(g.deadline), 50*time.Millisecond))
		}
		select {
		case <-childEnded:
		case <-timer:
		case o, ok := <-orders:
			if !ok {
				orders, g.orphaned, g.killing = nil, time.Now(), true
				continue
			}
			g.reap() // processes that ended before the order are not ended by elastic
			g.obey(o)
		}
	}
}

// bind sets the processors of the processes that this thread starts, until restore is called. One
// thread starts all of them.
func bind(cpus []int) (restore func(), err error) {
	if len(cpus) == 0 {
		return func() {}, nil
	}
	var before, wanted unix.CPUSet
	for _, c := range cpus {
		wanted.Set(c)
	}
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, err
	}
	if err := unix.SchedSetaffinity(0, &wanted); err != nil {
		return nil, err
	}
	return func() { _ = unix.SchedSetaffinity(0, &before) }, nil // the guardian itself is not bound
}

func (g *guardian) obey(o order) {
	switch {
	case g.empty || g.killing:
		if o.Ask != nil {
			g.out.Encode(report{Asked: &answer{}})
		}
	case o.Ask != nil:
		g.ask(*o.Ask)
	case o.Stop != nil:
		g.stop(o.Stop.Grace)
	}
}

// ask asks workers to save, by the drain file and then by SIGTERM. A worker that catches SIGTERM
// gets it alone, so that its helpers stay alive while it saves. A worker with the default action
// gets it with its process group. A worker that ignores SIGTERM gets none, and may watch the file.
func (g *guardian) ask(d Drain) {
	var a answer
	if err := writeDrain(g.spec.Drain, d); err != nil {
		a.Text = err.Error()
	}
	g.asked = true
	for i := range g.workers {
		w := &g.workers[i]
		if w.ended {
			continue
		}
		switch proc.Handles(w.pid, syscall.SIGTERM) {
		case proc.Caught:
			w.alone = true
			syscall.Kill(w.pid, syscall.SIGTERM)
		case proc.Ignored:
			w.alone = true
		case proc.ByDefault:
			w.alone = false
			syscall.Kill(-w.pid, syscall.SIGTERM)
		}
	}
	g.out.Encode(report{Asked: &a})
}

// stop starts the grace, or shortens it. Workers that were asked have had their SIGTERM, and a
// second one would interrupt their save.
func (g *guardian) stop(grace time.Duration) {
	deadline := time.Now().Add(grace)
	if !g.stopping || deadline.Before(g.deadline) {
		g.deadline = deadline
	}
	if !g.stopping && !g.asked && grace > 0 {
		// A worker that watches the drain file would wait for it. The write may fail, as on a full
		// disk. The wait then ends with the grace.
		_ = regular.Replace(g.spec.Drain+overSuffix, nil)
		g.terminate()
	}
	g.stopping = true
}

// terminate sends SIGTERM to all processes: to whole process groups, so that no fork escapes, and
// to processes that left their group.
func (g *guardian) terminate() {
	groups := make(map[int]bool)
	for _, w := range g.workers {
		if !w.ended {
			groups[w.pid] = true
			syscall.Kill(-w.pid, syscall.SIGTERM)
		}
	}
	for _, p := range g.descendants() {
		if !groups[p.Group] {
			p.Signal(syscall.SIGTERM)
		}
	}
}

// allEnded reports whether all workers have ended, and the process groups of those that were
// signalled as a group.
func (g *guardian) allEnded() bool {
	groups := make(map[int]bool)
	for _, w := range g.workers {
		if !w.ended {
			return false
		}
		groups[w.pid] = !w.alone
	}
	return !slices.ContainsFunc(g.descendants(),
		func(p proc.Process) bool { return groups[p.Group] && !p.Gone() })
}

// kill sends one round of SIGKILL. The next round reaches processes that were forked meanwhile.
func (g *guardian) kill() {
	proc.Cgroup(g.spec.Cgroup).Kill()
	for _, w := range g.workers {
		if !w.ended { // not reaped, so its pid and group are not reused
			syscall.Kill(-w.pid, syscall.SIGKILL)
			syscall.Kill(w.pid, syscall.SIGKILL)
		}
	}
	for _, p := range g.descendants() {
		p.Signal(syscall.SIGKILL)
	}
}

// killMarked kills processes with our mark that another program started, as at(1) does. It reports
// whether there were any.
func (g *guardian) killMarked() bool {
	c, err := proc.Look(func(_ proc.Process, value string) bool { return value == g.spec.Mark })
	if err != nil {
		return false
	}
	for _, p := range c.Ours {
		p.Signal(syscall.SIGKILL)
	}
	return c.Left(time.Since(g.orphaned)) != nil
}

func (g *guardian) descendants() []proc.Process {
	all, err := proc.All()
	if err != nil {
		return nil // without /proc only process groups are killed; orphans become our children
	}
	self := os.Getpid()
	return proc.Below(all, func(p proc.Process) bool { return p.Parent == self })
}

// reap collects ended children, and reports the workers among them. Without any child (ECHILD), no
// process of the group is left.
func (g *guardian) reap() {
	for !g.empty {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WALL, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.ECHILD:
			if g.orphaned.IsZero() || !g.killMarked() {
				g.empty = true
				g.out.Encode(report{Empty: true})
			}
			return
		case err != nil || pid <= 0:
			return
		}
		i := slices.IndexFunc(g.workers, func(w child) bool { return w.pid == pid && !w.ended })
		if i < 0 {
			continue
		}
		g.workers[i].ended = true
		g.out.Encode(report{Exit: &exitReport{
			Worker: i,
			Status: uint32(status),
			Ours:   g.asked || g.stopping || g.killing,
		}})
	}
}
