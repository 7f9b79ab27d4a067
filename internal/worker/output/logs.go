// Package output moves the output of workers through pipes into rotating log files, and to the
// console of the agent.
package output

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/internal/regular"
)

// Options says where the output of workers is written.
type Options struct {
	Dir    string // the first agent that locks it uses it directly
	Node   string // the name of the subdirectory that another agent uses
	Run    string // the run of the job; logs of another run are renamed; "": never
	Apart  bool   // stderr has a log of its own, workerlog.N.err
	Rotate int64  // size from which a log is rotated; 0: 256 MiB
	Keep   int    // rotated files kept of each worker; 0: all

	Console io.Writer               // nil: none
	Show    func(localRank int) Std // the streams shown on the console; nil: none
	// Prefix returns the prefix of each line on the console if several workers are shown; nil:
	// none.
	Prefix func(localRank, rank int) string
	// Label returns the label of copied lines, and of the console lines of workers that Labelled
	// accepts; nil: none.
	Label    func(localRank, rank int) string
	Labelled func(localRank int) bool
	// CopyOut and CopyErr are words. Lines of that stream with one of them are also written to
	// filtered_stdout.log or filtered_stderr.log.
	CopyOut, CopyErr []string

	// Notice is called with a sentence about output that could not be written or shown. It must not
	// block. nil: not reported.
	Notice func(string)
}

const defaultRotate = 256 << 20

// Logs are the log files of an agent's workers, by local rank, and their copy on the console. There
// is one Logs per agent, for all generations.
type Logs struct {
	dir     string
	lock    *os.File // the locked directory, in which no other agent writes
	o       Options
	console *console // nil: none

	copyOut, copyErr *duplicate // nil: none

	mu    sync.Mutex
	files map[string]*logFile // by path
	names map[int]string      // of processes that are not trainers, by local rank
}

// Open locks a log directory for this agent, and creates it if needed.
func Open(o Options) (*Logs, error) {
	if o.Rotate <= 0 {
		o.Rotate = defaultRotate
	}
	if o.Notice == nil {
		o.Notice = func(string) {}
	}
	if o.Show == nil {
		o.Show = func(int) Std { return None }
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("find log directory: %w", err)
	}
	l := &Logs{o: o, files: make(map[string]*logFile)}
	for try := 1; l.lock == nil; try++ { // agents of other jobs may use the same directory and node name
		l.dir = dir
		switch {
		case try == 2:
			l.dir = filepath.Join(dir, o.Node)
		case try > 2:
			l.dir = filepath.Join(dir, fmt.Sprintf("%s-%d", o.Node, try-1))
		}
		l.lock, err = lockDir(l.dir)
		if errors.Is(err, errors.ErrUnsupported) && try == 1 {
			l.lock.Close() // without locks, every agent uses a subdirectory
			l.lock = nil
			continue
		}
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return nil, fmt.Errorf("open log directory: %w", err)
		}
	}
	l.copyOut = newDuplicate(l.dir, "filtered_stdout.log", o.CopyOut)
	l.copyErr = newDuplicate(l.dir, "filtered_stderr.log", o.CopyErr)
	if err := l.moveOtherRun(o.Run); err != nil {
		o.Notice(err.Error())
	}
	if o.Console != nil {
		l.console = newConsole(o.Console, o.Notice)
	}
	return l, nil
}

// lockDir creates and locks dir. It returns nil if another agent has the lock. The kernel frees the
// lock when the agent ends. The error is errors.ErrUnsupported if dir has no locks, as on NFS.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return nil, &fs.PathError{Op: "write", Path: dir, Err: err}
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err {
	case nil:
		return f, nil
	case syscall.EWOULDBLOCK:
		f.Close()
		return nil, nil
	case syscall.EBADF, syscall.ENOLCK, syscall.ENOSYS, syscall.EOPNOTSUPP:
		return f, fmt.Errorf("lock %s: %w", dir, errors.ErrUnsupported)
	default:
		f.Close()
		return nil, &fs.PathError{Op: "lock", Path: dir, Err: err}
	}
}

// Dir is the directory in use.
func (l *Logs) Dir() string { return l.dir }

// Path returns the log of one worker.
func (l *Logs) Path(localRank int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if name := l.names[localRank]; name != "" {
		return filepath.Join(l.dir, name)
	}
	return filepath.Join(l.dir, "workerlog."+strconv.Itoa(localRank))
}

// Rename sets other names than workerlog.N for the logs of workers, by local rank, from the next
// start on.
func (l *Logs) Rename(names map[int]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names = names
}

// ErrPath returns the log of a worker's stderr, if it has one of its own.
func (l *Logs) ErrPath(localRank int) string { return l.Path(localRank) + errSuffix }

const errSuffix = ".err"

// Write writes a file of the directory atomically, because it may be read at any time.
func (l *Logs) Write(name string, content []byte) error {
	if err := regular.Replace(filepath.Join(l.dir, name), content); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// Append appends to a file of the directory.
func (l *Logs) Append(name string, content []byte) error {
	f, err := regular.Write(filepath.Join(l.dir, name), os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = f.Write(content)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// Close shows the queued output until ctx ends, and unlocks the directory. All groups must have
// ended.
func (l *Logs) Close(ctx context.Context) error {
	var err error
	if l.console != nil {
		err = l.console.close(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.files {
		f.close()
	}
	l.copyOut.close()
	l.copyErr.close()
	syscall.Flock(int(l.lock.Fd()), syscall.LOCK_UN) // a process that is being forked also has the lock open
	l.lock.Close()
	return err
}

// Header is the line before each start.
type Header struct {
	Job        string
	Generation uint64
	Rank       int
	WorldSize  int
	Node       string
	Name       string // the name of a process without a rank; "": it has a rank
	Waits      bool   // the worker is in no generation yet; Generation was the newest at its start
}

func (h Header) line(now time.Time) string {
	name := h.Name
	if name == "" {
		name = fmt.Sprintf("rank %d", h.Rank)
	}
	if h.Waits {
		return fmt.Sprintf("---- elastic: since generation %d, waiting worker, node %s, job %s, %s ----\n",
			h.Generation, h.Node, h.Job, Stamp(now))
	}
	return fmt.Sprintf("---- elastic: generation %d, %s, world size %d, node %s, job %s, %s ----\n",
		h.Generation, name, h.WorldSize, h.Node, h.Job, Stamp(now))
}

func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Begin writes the header of a start into a log.
func (l *Logs) Begin(localRank int, h Header) { l.Note(localRank, h.line(time.Now())) }

// Note writes a line of elastic into all logs of a worker.
func (l *Logs) Note(localRank int, line string) {
	l.file(l.Path(localRank)).begin(line)
	if l.o.Apart {
		l.file(l.ErrPath(localRank)).begin(line)
	}
}

func (l *Logs) file(path string) *logFile {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[path]
	if f == nil {
		f = newLogFile(path, l.o.Rotate, l.o.Keep, l.o.Notice)
		l.files[path] = f
	}
	return f
}

// Pumps makes the pumps of one worker: one for both streams, or two if stderr has a log of its own
// or if the console shows only one stream. The pump of stderr is the last.
func (l *Logs) Pumps(localRank int) []*Pump {
	show := l.o.Show(localRank)
	make := func(of Std, path string) *Pump {
		p := &Pump{Of: of, Log: l.file(path)}
		switch of {
		case Out:
			p.copies = l.copyOut
		case Err:
			p.copies = l.copyErr
		}
		if show&of == of {
			p.Console = l.console
		}
		return p
	}
	path := l.Path(localRank)
	switch {
	case l.o.Apart:
		return []*Pump{make(Out, path), make(Err, l.ErrPath(localRank))}
	case show == Out, show == Err, l.copyOut != nil, l.copyErr != nil:
		return []*Pump{make(Out, path), make(Err, path)}
	}
	return []*Pump{make(Both, path)}
}

// Prefix returns the prefix of a worker's lines on the console.
func (l *Logs) Prefix(localRank, rank int) string {
	if l.o.Prefix == nil {
		return ""
	}
	return l.o.Prefix(localRank, rank)
}

func (l *Logs) Label(localRank, rank int) string {
	if l.o.Label == nil {
		return ""
	}
	return l.o.Label(localRank, rank)
}

// Apart reports whether the stderr of workers has a log of its own.
func (l *Logs) Apart() bool { return l.o.Apart }

// Labelled reports whether the lines of a worker are labelled on the console.
func (l *Logs) Labelled(localRank int) bool { return l.o.Labelled != nil && l.o.Labelled(localRank) }
