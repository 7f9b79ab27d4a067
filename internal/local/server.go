package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/internal/problem"
)

// The functions below run inside elasticd.

const (
	// DetachFlag is the first argument of the process that starts the server and ends.
	DetachFlag = "--detach"
	// LocalFlag makes an elasticd the local server.
	LocalFlag = "--local"

	socketFile = "socket" // in the data directory: has the path of the server's socket
	hintFile   = "elasticd.json"

	timerSlack = time.Millisecond // how late the server's timers may be
)

// Descriptors inherited from Ensure: the pipe for the answer, and the two locks.
const (
	wordFD  = 3
	firstFD = 4
	lastFD  = 5
)

func (r Runtime) args() []string {
	args := []string{DetachFlag, LocalFlag, "--ensured", "--runtime-dir=" + r.Dir, "--data-dir=" +
		r.Data, "--idle=" + r.Idle.String()}
	if r.Listen != "" {
		args = append(args, "--listen="+r.Listen)
	}
	if r.Open {
		args = append(args, "--insecure")
	}
	return args
}

// Detach starts elasticd again with args. This process then ends, so init becomes the parent of the
// server. The server has a session of its own and only the descriptors of Ensure, because it must
// not keep a pipe of the user's shell open.
func Detach(args []string) error {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	for _, e := range fds {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > lastFD {
			unix.CloseOnExec(fd)
		}
	}
	cmd := exec.Command(os.Args[0], args...) // Ensure gives the full path
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	for fd := wordFD; fd <= lastFD; fd++ {
		cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(fd), ""))
	}
	// The server inherits the timer slack of this thread. Its timers may be a little late, so that
	// one wake-up serves several timers and the Go monitor polls less often.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// An error only costs wake-ups.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack.Nanoseconds()), 0, 0, 0)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	return cmd.Process.Release()
}

// Hint is the content of elasticd.json, for people. Programs use the socket.
type Hint struct {
	PID     int       `json:"pid"`
	Server  Endpoint  `json:"server"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// the socket named in a data directory may now belong to a server with other data
	Data string `json:"data"`
	// name of the token of clients on other machines
	Token string `json:"token,omitempty"`
}

func hint(dir string) (h Hint, err error) {
	b, err := os.ReadFile(filepath.Join(dir, hintFile))
	if err == nil {
		err = json.Unmarshal(b, &h)
	}
	return h, err
}

// Announce writes the files that lead to the ready server, for commands that search it by its data,
// and for people.
func (r Runtime) Announce(version string) error {
	if err := os.Chmod(r.Socket(), 0o600); err != nil {
		return fmt.Errorf("announce the server: %w", err)
	}
	h := Hint{PID: os.Getpid(), Server: r.endpoint(), Version: version, Data: r.Data,
		Started: time.Now().UTC().Truncate(time.Millisecond)}
	var err error
	if r.Token != "" {
		h.Token, err = r.Token.Name()
	}
	if err != nil {
		return fmt.Errorf("announce the server: %w", err)
	}
	hint, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("announce the server: %w", err)
	}
	if err := replace(filepath.Join(r.Dir, hintFile), hint); err != nil {
		return fmt.Errorf("announce the server: %w", err)
	}
	if err := replace(filepath.Join(r.Data, socketFile), []byte(r.Socket())); err != nil {
		return fmt.Errorf("announce the server: %w", err)
	}
	return nil
}

// AnswerEnsure tells the waiting Ensure, which started this process, that the server is ready, or why it
// is not.
func AnswerEnsure(failed error) {
	word := os.NewFile(wordFD, "word")
	// An error to write is ignored: Ensure was killed, and the server runs.
	if p, ok := errors.AsType[*problem.Error](failed); ok {
		_ = json.NewEncoder(word).Encode(p)
	} else if failed == nil {
		fmt.Fprintln(word, os.Getpid())
	}
	word.Close()
	for fd := firstFD; fd <= lastFD; fd++ {
		unix.Close(fd)
	}
}

// Retire hides this server. No command finds it any more, and none starts another one until
// release, which must follow the last write. Retire returns false and does nothing while a command
// holds the start lock, because that command will use this server.
func (r Runtime) Retire() (release func(), ok bool) {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	locks, err := r.lock(now)
	if err != nil {
		return nil, false
	}
	r.removeFiles()
	return func() { closeAll(locks) }, true
}

// WaitLost returns when the socket is gone, for example because /tmp was cleaned. No command can
// then find this server.
func (r Runtime) WaitLost(ctx context.Context) {
	look := time.NewTicker(2 * time.Second)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			if _, err := os.Lstat(r.Socket()); errors.Is(err, fs.ErrNotExist) {
				return
			}
		}
	}
}

// removeFiles removes the files that lead to the server.
func (r Runtime) removeFiles() {
	for _, path := range []string{r.Socket(), filepath.Join(r.Data, socketFile),
		filepath.Join(r.Dir, hintFile)} {
		os.Remove(path)
	}
}

func replace(path string, content []byte) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, append(content, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
