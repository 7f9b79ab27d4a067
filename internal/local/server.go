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
)

// This half runs inside elasticd.

const (
	// DetachFlag is the first argument of the process that only leaves another one behind.
	DetachFlag = "--detach"
	// LocalFlag makes an elasticd the local server.
	LocalFlag = "--local"

	socketFile = "socket" // in the data directory: where its server listens
	hintFile   = "elasticd.json"

	timerSlack = time.Millisecond // how late a timer of the server may be
)

// Passed on from Ensure: the pipe for the word "ready", and the two locks.
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
	return args
}

// Detach starts elasticd again with args, as a child of init: its parent is
// this process, which ends. It has a session of its own, and no descriptor
// but those that Ensure meant for it: a pipe that the user's shell opened
// must not stay open for as long as the server lives.
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
	cmd := exec.Command(os.Args[0], args...) // Ensure gives the whole path
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	for fd := wordFD; fd <= lastFD; fd++ {
		cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(fd), ""))
	}
	// The server inherits this from the thread that starts it: its timers may be a little late, so
	// that one wake-up serves those that are due together, and Go's monitor looks less often.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack.Nanoseconds()), 0, 0, 0) // costs wake-ups only
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	return cmd.Process.Release()
}

// Hint is the content of elasticd.json: for people, the socket is the truth.
type Hint struct {
	PID     int       `json:"pid"`
	Server  Endpoint  `json:"server"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// a socket that is named in a data directory may by now be of a server on other data
	Data string `json:"data"`
}

func hint(dir string) (h Hint, err error) {
	b, err := os.ReadFile(filepath.Join(dir, hintFile))
	if err == nil {
		err = json.Unmarshal(b, &h)
	}
	return h, err
}

// Announce writes down that the server is ready, for commands that look for it by its data, and for
// readers of the hint.
func (r Runtime) Announce(version string) error {
	if err := os.Chmod(r.Socket(), 0o600); err != nil {
		return fmt.Errorf("announce the server: %w", err)
	}
	hint, err := json.Marshal(Hint{os.Getpid(), r.endpoint(), version,
		time.Now().UTC().Truncate(time.Millisecond), r.Data})
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

// AnswerEnsure tells the Ensure that started this process and waits for it that the server is
// ready.
func AnswerEnsure() {
	word := os.NewFile(wordFD, "word")
	fmt.Fprintln(word, os.Getpid()) // fails if Ensure was killed meanwhile: the server is there all the same
	word.Close()
	for fd := firstFD; fd <= lastFD; fd++ {
		unix.Close(fd)
	}
}

// Retire makes way for the next server: from now on no command finds this one,
// and none starts another until release, which is for after the last write.
// It reports false, and changes nothing, while a command is about to start
// one: that command means to use this one.
func (r Runtime) Retire() (release func(), ok bool) {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	locks, err := r.lock(now)
	if err != nil {
		return nil, false
	}
	r.forget()
	return func() { closeAll(locks) }, true
}

// WaitLost returns when the socket is no longer there: /tmp was cleaned,
// and no command can find this server again.
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

// forget removes what leads to the server.
func (r Runtime) forget() {
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
