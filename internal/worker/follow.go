package worker

import (
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/internal/regular"
	"github.com/elasticd/elastic/internal/worker/output"
	"github.com/elasticd/elastic/internal/worker/proc"
)

// Exit is the end of one worker.
type Exit struct {
	LocalRank int
	Rank      int
	Code      int    // exit status; 128+N for a signal
	Signal    string // "SIGKILL"; "" for an exit
	Ours      bool   // after elastic asked it to end, or killed it: not a failure
	Tail      []byte // the last bytes of its output, of stderr if that has its own log
	ErrorFile []byte // content of $TORCHELASTIC_ERROR_FILE; nil: none
	Note      string // a reason for the user, or ""
}

// follow owns the group until it ends. It reads the reports of the guardian, and takes over if the
// guardian is killed.
func (g *Group) follow() {
	in := gob.NewDecoder(g.conn)
	up := g.up
	empty := false
	for !empty {
		var r report
		if in.Decode(&r) != nil {
			break // the guardian has ended
		}
		g.heard.Store(int64(time.Since(g.began)))
		switch {
		case r.Started != nil:
			g.workers = r.Started
			for i := range g.workers {
				g.pending[i] = true
			}
			up <- nil
			up = nil
		case r.Failed != nil:
			up <- g.startError(*r.Failed)
			up = nil
		case r.Exit != nil:
			g.reportExit(decode(*r.Exit))
		case r.Asked != nil:
			g.answer(r.Asked.Text)
		case r.Empty:
			empty = true
		}
	}
	ours := g.ending.Load()
	if !empty {
		g.takeOver()
	}
	for i := range g.workers {
		if g.pending[i] { // the guardian did not report its exit
			g.reportExit(Exit{LocalRank: i, Code: 128 + int(syscall.SIGKILL), Signal: "SIGKILL", Ours: ours,
				Note: "its guardian was killed"})
		}
	}
	if up != nil {
		up <- ErrNoGuardian
	}
	g.tells.Wait()
	g.finish()
	g.guardian.Wait() // last, because takeOver searches the session with this pid
	g.cgroup.Remove()
	close(g.exits)
	close(g.done)
}

// takeOver kills the processes that are left when the guardian ended too early. Workers die with
// the guardian. Their descendants are found by the session, by the mark, or by their parents. It
// ends when no process is left.
func (g *Group) takeOver() {
	g.guardian.Kill() // it may have closed only the socket
	workers := make(map[int]uint64, len(g.workers))
	for _, w := range g.workers {
		workers[w.PID] = w.Start
	}
	known := make(map[int]uint64) // earlier found processes, with their start times
	began := time.Now()
	proc.Until(context.Background(), func() error {
		g.cgroup.Kill()
		c, err := proc.Look(func(p proc.Process, value string) bool {
			is := func(of map[int]uint64) bool { start, ok := of[p.PID]; return ok && start == p.Start }
			return p.PID != g.guardian.Pid && (is(workers) || is(known) || p.Session == g.guardian.Pid ||
				value == g.mark)
		})
		if err != nil {
			return err
		}
		for _, p := range c.Ours {
			known[p.PID] = p.Start
			p.Signal(syscall.SIGKILL)
		}
		if err := c.Left(time.Since(began)); err != nil || !g.cgroup.Populated() {
			return err
		}
		return errors.New("the cgroup is not empty")
	})
}

// finish ends the pumps and closes the socket, at which the guardian ends.
func (g *Group) finish() {
	for _, pumps := range g.pumps {
		for _, p := range pumps {
			p.Finish()
		}
	}
	if g.conn != nil {
		g.conn.Close()
	}
}

// reportExit reports the exit of a worker after its output is in the log.
func (g *Group) reportExit(e Exit) {
	delete(g.pending, e.LocalRank)
	e.Rank = g.rank(e.LocalRank)
	if e.Signal == "SIGKILL" && !e.Ours && e.Note == "" {
		if n := g.killedForMemory(); n > g.oomKills {
			g.oomKills = n
			e.Note = "killed by the kernel: out of memory"
		}
	}
	g.tells.Go(func() {
		for _, p := range g.pumps[e.LocalRank] { // the tail of stderr, which comes last, is preferred
			if tail := p.Settle(); len(tail) > 0 {
				e.Tail = tail
			}
		}
		if e.Ours && e.Code != 0 {
			g.spec.Logs.Note(g.logOf(e.LocalRank), g.endedLine(e, time.Now()))
		}
		e.ErrorFile = g.errorFile(e.LocalRank)
		g.exits <- e
	})
}

// statusOfTerm is what shells report for a process that a SIGTERM ended.
const statusOfTerm = 128 + int(syscall.SIGTERM)

// endedLine returns the log line which says that elastic ended the worker. Its last output, for
// example about a SIGTERM, is then not the cause.
func (g *Group) endedLine(e Exit, now time.Time) string {
	name := g.spec.Name
	if name == "" {
		name = fmt.Sprintf("rank %d", e.Rank)
	}
	by := cmp.Or(e.Signal, fmt.Sprintf("exit code %d", e.Code))
	how := "was ended by elastic (" + by + ")"
	if e.Signal == "SIGTERM" || e.Signal == "" && e.Code == statusOfTerm {
		how = "was asked to end by elastic (SIGTERM), and ended"
	}
	return fmt.Sprintf("---- elastic: %s %s; elastic events says why, %s ----\n", name, how,
		output.Stamp(now))
}

// longestError is how many bytes of an error file are read.
const longestError = 256 << 10

// errorFile returns the error file of a worker that has ended; nil if there is none.
func (g *Group) errorFile(localRank int) []byte {
	f, err := regular.Open(filepath.Join(g.spec.RunDir, strconv.Itoa(g.spec.First+localRank), "error.json"))
	if err != nil {
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, longestError))
	if err != nil || len(b) == 0 {
		return nil
	}
	return b
}

func (g *Group) answer(text string) {
	var err error
	if text != "" {
		err = errors.New(text)
	}
	select {
	case g.asked <- err:
	default: // the previous answer was not read
	}
}

// killedForMemory returns how many processes of the group, or of the cgroup around it, the kernel
// killed for memory; -1: unknown.
func (g *Group) killedForMemory() int {
	dir := string(g.cgroup)
	if dir == "" {
		dir = proc.OwnCgroup()
	}
	if n := proc.OOMKills(dir); n >= 0 {
		return n
	}
	return proc.MemoryKills()
}

func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("SIG%d", int(s)) // a real-time signal
}

func decode(r exitReport) Exit {
	e := Exit{LocalRank: r.Worker, Ours: r.Ours}
	switch status := syscall.WaitStatus(r.Status); {
	case status.Signaled():
		e.Signal = signalName(status.Signal())
		e.Code = 128 + int(status.Signal())
	default:
		e.Code = status.ExitStatus()
	}
	return e
}

// startError returns the error of exec for the user. ENOENT can also mean a missing directory or a
// missing interpreter.
func (g *Group) startError(f failed) error {
	path, errno := g.spec.Argv[0], syscall.Errno(f.Errno)
	if f.Errno == 0 {
		return errors.New(f.Text)
	}
	if _, err := os.Stat(g.spec.Dir); g.spec.Dir != "" && err != nil {
		return fmt.Errorf("enter directory: %w", err)
	}
	switch errno {
	case syscall.ENOENT, syscall.ENOTDIR:
		if info, err := os.Stat(g.absolute(path)); err == nil && info.Mode().IsRegular() {
			return fmt.Errorf("%w: %s: the interpreter that it names is not there", ErrNotExecutable, path)
		}
		return fmt.Errorf("%w: %s", ErrNotFound, path)
	case syscall.EACCES, syscall.EPERM, syscall.ENOEXEC, syscall.EISDIR, syscall.ELIBBAD, syscall.ETXTBSY:
		return fmt.Errorf("%w: %s: %w", ErrNotExecutable, path, errno)
	case syscall.E2BIG:
		return fmt.Errorf("arguments and environment are too long for the kernel: %w", errno)
	}
	return &fs.PathError{Op: "exec", Path: path, Err: errno}
}

// absolute returns the path that exec uses: a relative path starts in Dir.
func (g *Group) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(g.spec.Dir, path)
}
