// Package hook runs a command of the user's before workers start, and tells what it ended with.
package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Hook is one command.
type Hook struct {
	Command string        // for sh -c
	Limit   time.Duration // how long it may take
	Dir     string
	Env     []string
	Log     string // file that its output is added to
}

// Failed is a hook that did not end with status 0 in time.
type Failed struct {
	How  string // "exit status 3", "no end within 1m0s"
	Said string // the last line of its output, "" if there is none
	Log  string
}

func (f *Failed) Error() string {
	if f.Said == "" {
		return "the pre-hook failed: " + f.How
	}
	return "the pre-hook failed: " + f.How + ": " + f.Said
}

// Run runs a hook for a start that why names, and waits until it and all of its process group have
// ended. A hook that fails is a *Failed; another error says what kept the hook from running. When
// ctx ends so does the hook.
func Run(ctx context.Context, h Hook, why string) error {
	log, err := os.OpenFile(h.Log, os.O_RDWR|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("write the log of the pre-hook: %w", err)
	}
	defer log.Close()
	fmt.Fprintf(log, "---- elastic: pre-hook for %s, %s ----\n", why, time.Now().UTC().Format(time.RFC3339))
	begin, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("write the log of the pre-hook: %w", err)
	}
	how, err := h.run(ctx, log)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("run the pre-hook: %w", err)
	case how == "":
		return nil
	}
	return &Failed{How: how, Said: lastLine(log, begin), Log: h.Log}
}

// run returns how the command failed, "" if it did not.
func (h Hook) run(ctx context.Context, log *os.File) (how string, err error) {
	// The command dies with the thread that started it, so that thread stays.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/bin/sh", "-c", h.Command)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = h.Dir, h.Env, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // nothing of it may be left
	limit := time.NewTimer(h.Limit)
	defer limit.Stop()
	ended := make(chan struct{})
	late := make(chan bool, 1)
	go func() {
		defer close(late)
		select {
		case <-ended:
			return
		case <-ctx.Done():
		case <-limit.C:
			late <- true
		}
		kill()
	}()
	// The group is killed before its first process is waited for: until then the number of the
	// group is its own.
	err = waitUnreaped(cmd.Process.Pid)
	close(ended)
	timedOut := <-late
	if err == nil {
		kill()
	}
	err = cmd.Wait()
	if timedOut {
		return fmt.Sprintf("no end within %s", h.Limit), nil
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.Error(), nil
	}
	return "", err
}

// waitUnreaped waits for the end of a child and leaves it to be waited for.
func waitUnreaped(pid int) error {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// lastLine is the last line of a file behind an offset, at most so long that people read it.
func lastLine(f *os.File, begin int64) string {
	const most = 4 << 10
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	from := max(begin, end-most)
	text, _ := io.ReadAll(io.NewSectionReader(f, from, end-from)) // as much of it as there is
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(text), "?")), "\n")
	last := []rune(strings.TrimSpace(lines[len(lines)-1]))
	return string(last[:min(len(last), 400)])
}
