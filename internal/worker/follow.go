package worker

import (
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
	"github.com/elasticd/elastic/internal/worker/mark"
	"github.com/elasticd/elastic/internal/worker/output"
	"github.com/elasticd/elastic/internal/worker/proc"
)

// Exit is the end of one worker.
type Exit struct {
	LocalRank int
	Rank      int
	Code      int    // exit status; 128+N for a signal
	Signal    string // "SIGKILL"; "" if it ended by itself
	Ours      bool   // it ended after we asked it to, or by our signal: never a failure
	Aborted   bool   // it made no progress, and was ended for its stack
	At        time.Time
	Tail      []byte // the end of what it wrote, of stderr where that is apart
	ErrorFile []byte // what it wrote to $TORCHELASTIC_ERROR_FILE; nil: nothing
	Note      string // what else is known of its end, in words
}

// follow owns the group from its start to its end: it hears the guardian, and
// takes over from one that is killed.
func (g *Group) follow() {
	in := gob.NewDecoder(g.conn)
	up := g.up
	empty := false
	for !empty {
		var r report
		if in.Decode(&r) != nil {
			break // the guardian is gone
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
			g.tell(decode(*r.Exit))
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
		if g.pending[i] { // it could not be waited for
			g.tell(Exit{LocalRank: i, Code: 128 + int(syscall.SIGKILL), Signal: "SIGKILL", Ours: ours,
				At: time.Now(), Note: "its guardian was killed"})
		}
	}
	if up != nil {
		up <- ErrNoGuardian
	}
	g.tells.Wait()
	g.finish()
	g.guardian.Wait() // not before: its pid is the number of the session that takeOver searches
	g.cgroup.Remove()
	close(g.exits)
	close(g.done)
}

// takeOver kills what a guardian that ended too early left. Workers die with
// it; what they started is found by the session, by the mark, or as a worker's
// descendant. It ends only when nothing is left.
func (g *Group) takeOver() {
	g.guardian.Kill() // it may just have closed the socket
	workers := make(map[int]uint64, len(g.workers))
	for _, w := range g.workers {
		workers[w.PID] = w.Start
	}
	known := make(map[int]uint64) // processes that were ours once, by start time
	began := time.Now()
	mark.Until(context.Background(), func() error {
		g.cgroup.Kill()
		c, err := mark.Look(func(p proc.Process, value string) bool {
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

// finish ends the pumps and hangs up; the guardian ends when the agent hangs up.
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

// tell reports the end of a worker once what it wrote is in its log.
func (g *Group) tell(e Exit) {
	delete(g.pending, e.LocalRank)
	e.Rank = g.rank(e.LocalRank)
	e.Aborted = g.aborted[e.LocalRank].Load() && !e.Ours
	if e.Signal == "SIGKILL" && !e.Ours && e.Note == "" {
		if n := g.killedForMemory(); n > g.oomKills {
			g.oomKills = n
			e.Note = "killed by the kernel: out of memory"
		}
	}
	g.tells.Go(func() {
		for _, p := range g.pumps[e.LocalRank] { // stderr is the last that wrote something
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

// endedLine tells a reader of the log that the last words of the worker, for example about a
// SIGTERM, are not the cause.
func (g *Group) endedLine(e Exit, now time.Time) string {
	name := g.spec.Name
	if name == "" {
		name = fmt.Sprintf("rank %d", e.Rank)
	}
	how := e.Signal
	if how == "" {
		how = fmt.Sprintf("exit code %d", e.Code)
	}
	return fmt.Sprintf("---- elastic: %s was ended by elastic (%s); the cause is elsewhere, %s ----\n",
		name, how, output.Stamp(now))
}

// longestError is the most that is read of an error file.
const longestError = 256 << 10

// errorFile is what a worker that has ended left as its error; nil if it left none.
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
	default: // the one before was not read
	}
}

// killedForMemory counts the workers, and what runs beside them, that the kernel killed for memory;
// -1: not counted.
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
	return fmt.Sprintf("SIG%d", int(s)) // real-time
}

func decode(r exitReport) Exit {
	e := Exit{LocalRank: r.Worker, Ours: r.Ours, At: r.At}
	switch status := syscall.WaitStatus(r.Status); {
	case status.Signaled():
		e.Signal = signalName(status.Signal())
		e.Code = 128 + int(status.Signal())
	default:
		e.Code = status.ExitStatus()
	}
	return e
}

// startError says in the words of exec why a worker did not start. ENOENT is
// also what a missing directory and a missing interpreter give.
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

// absolute is where exec looks for a path: relative ones begin in Dir.
func (g *Group) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(g.spec.Dir, path)
}
