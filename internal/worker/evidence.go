package worker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Evidence is what can be seen of a worker that makes no progress.
type Evidence struct {
	LocalRank int    `json:"local_rank"`
	Rank      int    `json:"rank"`
	PID       int    `json:"pid"`
	State     string `json:"state"` // of its main thread: R, S, D, T…
	WChan     string `json:"wchan"` // where it sleeps in the kernel; "" or 0: it cannot be told
	Syscall   string `json:"syscall"`
	Kernel    string `json:"kernel"`   // its stack there, where we may read it
	Stack     string `json:"stack"`    // of Python, by py-spy or by faulthandler
	Progress  string `json:"progress"` // the last line of its progress file
}

const (
	// pySpyLimit bounds one py-spy, dyingLimit how long a worker may take to write its stack and end.
	pySpyLimit = 3 * time.Second
	dyingLimit = 1500 * time.Millisecond
	stackBytes = 64 << 10
)

// Examine gathers evidence of all workers, by local rank. First what leaves them as they are. Then a worker
// of Python whose stack is not known is ended by SIGABRT, which its faulthandler answers with the stacks of
// all threads: who asks is going to end the workers anyway.
func (g *Group) Examine(ctx context.Context) (all []Evidence) {
	all = make([]Evidence, len(g.workers))
	var each sync.WaitGroup
	for i, w := range g.workers {
		each.Go(func() {
			all[i] = lookAt(w.PID)
			all[i].LocalRank, all[i].Rank = i, g.rank(i)
			all[i].Progress = lastLine(filepath.Join(g.spec.RunDir, strconv.Itoa(i), "progress.jsonl"))
			all[i].Stack = pySpy(ctx, w.PID)
		})
	}
	each.Wait()
	for i := range all {
		if e := &all[i]; e.Stack == "" && e.State != "T" && e.State != "t" && handles(e.PID, syscall.SIGABRT) == caught {
			each.Go(func() { e.Stack = g.abort(ctx, i) })
		}
	}
	each.Wait()
	return all
}

// lookAt reads what /proc says of a process.
func lookAt(pid int) Evidence {
	dir := "/proc/" + strconv.Itoa(pid)
	read := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(dir, name)) // what we may not read is not known
		return strings.TrimSpace(string(b))
	}
	e := Evidence{PID: pid, WChan: read("wchan"), Syscall: read("syscall"), Kernel: read("stack")}
	if p, ok := lookup(pid); ok {
		e.State = string(rune(p.state))
	}
	return e
}

// pySpy asks py-spy for the stacks of a process; "" where there is none, or it may not look.
func pySpy(ctx context.Context, pid int) string {
	path, err := exec.LookPath("py-spy")
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, pySpyLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "dump", "--nonblocking", "--pid", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	return string(out[:min(len(out), stackBytes)])
}

// abort has a worker write its stacks and end, and returns what it wrote. It leaves no core behind.
func (g *Group) abort(ctx context.Context, i int) string {
	w := g.workers[i]
	p, ok := lookup(w.PID)
	if !ok || p.start != w.Start {
		return ""
	}
	path := g.spec.Logs.Path(i)
	if g.spec.Logs.Options.Apart {
		path = g.spec.Logs.ErrPath(i)
	}
	before := sizeOf(path)
	_ = unix.Prlimit(w.PID, unix.RLIMIT_CORE, &unix.Rlimit{}, nil) // a core of a large process would take minutes
	g.aborted[i].Store(true)
	if p.signal(syscall.SIGABRT) != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, dyingLimit)
	defer cancel()
	_ = until(ctx, func() error {
		if now, ok := lookup(w.PID); ok && now.start == w.Start && !now.gone() {
			return fmt.Errorf("process %d lives", w.PID)
		}
		return nil
	})
	for _, pump := range g.pumps[i] {
		pump.Settle()
	}
	return readFrom(path, before)
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// readFrom reads the first bytes of a file behind an offset.
func readFrom(path string, offset int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, _ := io.ReadAll(io.NewSectionReader(f, offset, stackBytes)) // as much of it as there is
	return string(b)
}

// lastLine is the last whole line of a file.
func lastLine(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	const most = 4 << 10
	b, _ := io.ReadAll(io.NewSectionReader(f, max(0, sizeOf(path)-most), most))
	end := bytes.LastIndexByte(b, '\n')
	if end < 0 {
		return ""
	}
	return string(b[bytes.LastIndexByte(b[:end], '\n')+1 : end])
}
