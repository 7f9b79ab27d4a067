package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/elasticd/elastic/internal/problem"
)

const (
	startLimit = 30 * time.Second // a first start takes 0.2 s, on a slow disk several seconds
	logMax     = 1 << 20          // a larger log is renamed at the next start
	logLines   = 20
)

// Started describes a server that Ensure started; zero if one was running.
type Started struct {
	PID int
	Log string
}

// Ensure returns the running server, and starts it if there is none. If several processes call it
// at the same time, one of them starts the server.
func Ensure(ctx context.Context, r Runtime) (Endpoint, Started, error) {
	at, err := Find(ctx, r)
	if !errors.Is(err, ErrNone) {
		return at, Started{}, err
	}
	bin, err := r.elasticd()
	if err != nil {
		return "", Started{}, err
	}
	if err := r.prepare(); err != nil {
		return "", Started{}, err
	}
	locks, err := r.lock(ctx)
	if err != nil {
		return "", Started{}, err
	}
	defer closeAll(locks)
	if at, err := Find(ctx, r); !errors.Is(err, ErrNone) {
		return at, Started{}, err
	}
	s, err := r.start(ctx, bin, locks)
	if err != nil {
		return "", Started{}, err
	}
	return r.endpoint(), s, nil
}

// elasticd returns the path of elasticd: beside this program, else in PATH.
func (r Runtime) elasticd() (string, error) {
	if r.Bin != "" {
		return r.Bin, nil
	}
	self, err := os.Executable()
	if err == nil {
		beside := []string{filepath.Join(filepath.Dir(self), "elasticd")}
		if real, err := filepath.EvalSymlinks(self); err == nil {
			beside = append(beside, filepath.Join(filepath.Dir(real), "elasticd"))
		}
		for _, path := range beside {
			if p, err := exec.LookPath(path); err == nil {
				return p, nil
			}
		}
	}
	if p, err := exec.LookPath("elasticd"); err == nil {
		return filepath.Abs(p)
	}
	return "", problem.New(problem.LocalStart, "elasticd not found").
		Because("it is neither beside %s nor in PATH", self).
		Cure("install it there, or name a server with --server")
}

// start starts elasticd and waits until it is ready. elasticd inherits the locks, so they are held
// even if this process is killed.
func (r Runtime) start(ctx context.Context, bin string, locks []*os.File) (Started, error) {
	log, before, err := r.openLog()
	if err != nil {
		return Started{}, problem.New(problem.StateDir, "log of the local server: %v", err).Cure("--state-dir=DIR")
	}
	defer log.Close()
	word, says, err := os.Pipe()
	if err != nil {
		return Started{}, fmt.Errorf("start the local server: %w", err)
	}
	defer word.Close()

	cmd := exec.Command(bin, r.args()...)
	cmd.Dir, cmd.Env = "/", environment()
	if r.Token != "" { // no flag: other users can see command lines
		cmd.Env = append(cmd.Env, TokenEnv+"="+string(r.Token))
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = append([]*os.File{says}, locks...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Run() // the first process ends at once; its child is the server
	says.Close()
	if err != nil {
		return Started{}, r.failed(fmt.Sprintf("%s: %v", bin, err), before)
	}
	return r.await(ctx, word, before)
}

func (r Runtime) await(ctx context.Context, word *os.File, before int64) (Started, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	defer context.AfterFunc(ctx, func() { word.SetReadDeadline(time.Now()) })()
	said, err := io.ReadAll(word)
	if err != nil {
		return Started{}, r.failed(fmt.Sprintf("not ready in time: %v", context.Cause(ctx)), before)
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(said))); err == nil {
		return Started{PID: pid, Log: r.logFile()}, nil
	}
	var p problem.Error
	if json.Unmarshal(said, &p) == nil && p.Fix != "" {
		return Started{}, problem.New(problem.LocalStart, "the local server did not start: %s", p.Message).
			Because("%s", p.Why).Cure("%s", p.Fix)
	}
	return Started{}, r.failed("it ended", before)
}

// failed returns the error of a server that did not say why it did not start, with the end of its log.
func (r Runtime) failed(how string, before int64) error {
	p := problem.New(problem.LocalStart, "the local server did not start: %s", how).
		Because("its log is %s", r.logFile()).Cure("cure what the log says, or name a server with --server")
	if log := r.tail(before); len(log) > 0 {
		p.Detail("log", log).Because("%s; it ends: %s", p.Why, log[len(log)-1])
	}
	return p
}

// environment returns the few variables that a server needs. It drops those of a job, because a
// sweep would find the server by the mark of the job.
func environment() []string {
	pass := []string{"PATH", "HOME", "USER", "TMPDIR", "LANG", "TZ", "GODEBUG", "GOTRACEBACK", "GOCOVERDIR"}
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return !slices.Contains(pass, name)
	})
}

func (r Runtime) logFile() string { return filepath.Join(r.Data, "elasticd.log") }

func (r Runtime) openLog() (log *os.File, size int64, err error) {
	path := r.logFile()
	if st, err := os.Stat(path); err == nil && st.Size() > logMax {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, 0, err
		}
	}
	log, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, 0, err
	}
	st, err := log.Stat()
	if err != nil {
		log.Close()
		return nil, 0, err
	}
	return log, st.Size(), nil
}

// tail returns the last lines of the log after the first before bytes.
func (r Runtime) tail(before int64) []string {
	f, err := os.Open(r.logFile())
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return []string{err.Error()}
	}
	defer f.Close()
	b, _ := io.ReadAll(io.NewSectionReader(f, before, logMax))
	if b = bytes.TrimSpace(b); len(b) == 0 {
		return nil
	}
	lines := strings.Split(string(b), "\n")
	return lines[max(0, len(lines)-logLines):]
}
