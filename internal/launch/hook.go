package launch

// This file runs a command of the user before workers start, and reports how it ended.

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

	"github.com/elasticd/elastic/internal/regular"
)

// Hook is one command.
type Hook struct {
	Command string        // for sh -c
	Limit   time.Duration // how long it may take
	Dir     string
	Env     []string
	Log     string // file to which its output is appended
}

// HookFailed means that a hook did not end with status 0 in time.
type HookFailed struct {
	How  string // "exit status 3", "no end within 1m0s"
	Said string // the last line of its output, "" if there was none
	Log  string
}

func (f *HookFailed) Error() string {
	if f.Said == "" {
		return "the pre-hook failed: " + f.How
	}
	return "the pre-hook failed: " + f.How + ": " + f.Said
}

// RunHook runs a hook, and waits until it and its whole process group have ended. why says which start
// the hook is for. If the hook fails, the error is a *Failed. Another error says why the hook did
// not run. When ctx ends, the hook is killed.
func RunHook(ctx context.Context, h Hook, why string) error {
	log, err := regular.Write(h.Log, os.O_RDWR|os.O_APPEND)
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
	return &HookFailed{How: how, Said: lastLine(log, begin), Log: h.Log}
}

// run runs the command, and returns how it failed, "" if it did not fail.
func (h Hook) run(ctx context.Context, log *os.File) (how string, err error) {
	// The kernel kills the command when the thread that started it ends, so the goroutine keeps the
	// thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/bin/sh", "-c", h.Command)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = h.Dir, h.Env, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // the process group
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
	// The group is killed before its first process is reaped: until then no other group can have
	// its number.
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

// waitUnreaped waits until a child has ended, and does not reap it.
func waitUnreaped(pid int) error {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// lastLine returns the last line of a file after an offset, shortened for a message.
func lastLine(f *os.File, begin int64) string {
	const most = 4 << 10
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	from := max(begin, end-most)
	text, _ := io.ReadAll(io.NewSectionReader(f, from, end-from)) // as much as can be read
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(text), "?")), "\n")
	last := []rune(strings.TrimSpace(lines[len(lines)-1]))
	return string(last[:min(len(last), 400)])
}
