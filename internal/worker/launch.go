package worker

import (
	"encoding/gob"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/internal/worker/output"
	"github.com/elasticd/elastic/internal/worker/proc"
)

// launch makes the pipes of so many workers, and starts the guardian and the pumps. The guardian
// then waits for its order.
func (g *Group) launch(workers int) (err error) {
	var theirs []*os.File // the guardian's files, closed here
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
		if err != nil {
			g.finish()
		}
	}()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make a socket for the guardian: %w", err)
	}
	unix.SetNonblock(pair[0], true) // so that reading it blocks no thread
	g.conn = os.NewFile(uintptr(pair[0]), "guardian")
	g.orders = gob.NewEncoder(g.conn)
	theirs = append(theirs, os.NewFile(uintptr(pair[1]), "agent"))

	pass := []*os.File{theirs[0]}
	give := func(f *os.File) int { // returns the descriptor of f in the guardian
		pass = append(pass, f)
		return wireFD + len(pass) - 1
	}
	if g.spec.TTY != nil {
		g.terminal = give(g.spec.TTY)
	}
	for i := range workers {
		if g.terminal != 0 {
			g.ends = append(g.ends, workerOrder{Out: g.terminal, Err: g.terminal})
			g.pumps = append(g.pumps, nil)
			break
		}
		writes, err := g.openPipes(i, give)
		theirs = append(theirs, writes...)
		if err != nil {
			return fmt.Errorf("make a pipe for worker %d: %w", i, err)
		}
	}

	cmd := exec.Command(g.spec.Guardian[0])
	cmd.Args = g.spec.Guardian
	cmd.Dir = "/"
	cmd.Env = []string{proc.MarkVariable + "=" + g.mark + proc.GuardianWord}
	cmd.ExtraFiles = pass
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the guardian: %w", err)
	}
	g.guardian = cmd.Process
	for _, pumps := range g.pumps {
		for _, p := range pumps {
			p.Start()
		}
	}
	return nil
}

// openPipes makes the pipes of one worker. give passes a file to the guardian. writes are the ends
// that the worker writes to.
func (g *Group) openPipes(i int, give func(*os.File) int) (writes []*os.File, err error) {
	var w workerOrder
	pumps := g.spec.Logs.Pumps(g.spec.First + i)
	g.pumps = append(g.pumps, pumps)
	for _, p := range pumps {
		write, err := p.Open()
		if err != nil {
			return writes, err
		}
		writes = append(writes, write)
		fd := give(write)
		if p.Of&output.Out != 0 {
			w.Out = fd
		}
		if p.Of&output.Err != 0 {
			w.Err = fd
		}
		g.streams = append(g.streams,
			streamOrder{Staged: give(p.Staged), Read: give(p.Read), Log: p.Log.Path})
	}
	g.ends = append(g.ends, w)
	return writes, nil
}

// shareConsole sets the labels and prefixes of the pumps, and whether several of them share the
// console.
func (g *Group) shareConsole() {
	logs := g.spec.Logs
	workers, streams := 0, 0
	for _, pumps := range g.pumps {
		shown := 0
		for _, p := range pumps {
			if p.Console != nil {
				shown++
			}
		}
		streams += shown
		if shown > 0 {
			workers++
		}
	}
	for i, pumps := range g.pumps {
		local := g.spec.First + i
		label, prefix := logs.Label(local, g.rank(i)), ""
		switch {
		case logs.Labelled(local):
			prefix = label
		case workers > 1:
			prefix = logs.Prefix(local, g.rank(i))
		}
		for _, p := range pumps {
			p.Name(label)
			if streams > 1 || prefix != "" {
				p.Share(prefix)
			}
		}
	}
}

// order returns the order that starts the workers of s.
func (g *Group) order(s Spec) *startOrder {
	start := &startOrder{Dir: s.Dir, Drain: s.DrainFile(), Mark: g.mark, Lead: s.Lead, TTY: g.terminal,
		Cgroup: string(g.cgroup), Streams: g.streams}
	for i, env := range s.Env {
		w := g.ends[i]
		w.Argv, w.Env, w.Rank = s.Argv, proc.SetMark(env, g.mark), s.Ranks[i]
		if s.Args != nil {
			w.Argv = append([]string{s.Argv[0]}, s.Args[i]...)
		}
		if s.CPUs != nil {
			w.CPUs = s.CPUs[i]
		}
		start.Workers = append(start.Workers, w)
	}
	return start
}
