package proc

// This file finds the processes of an agent by a mark in their environment. It ends processes that
// an earlier agent left.

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Variable holds the mark in the environment of a process: a Mark, a slash, the id of the group,
// and for a guardian GuardianWord.
const (
	MarkVariable = "ELASTIC_WORKER_MARK"
	GuardianWord = "/guardian"
)

// HangLimit is how long a guardian may be silent before it counts as hung. It is also how long the
// mark of a new process may be unreadable, which ends with exec.
const HangLimit = 2 * time.Second

// Mark identifies the state directory of one node and job. No two living agents have the same one.
type Mark string

// MarkOf returns the mark of the state directory of a node and job. The agent holds its lock.
func MarkOf(dir string) Mark {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	sum := sha256.Sum256([]byte(dir))
	return Mark(hex.EncodeToString(sum[:8]))
}

// Environ adds a mark to the environment of a process that is no worker, so that Sweep ends it.
func (m Mark) Environ(env []string) []string { return SetMark(env, string(m)+"/other") }

// Sweep kills all processes and cgroups that an earlier agent of the same mark left, and waits
// until they are gone. The caller holds the lock of the state directory, so no living agent owns
// them. Sweep fails only when ctx ends. The error names the processes that are left.
func Sweep(ctx context.Context, m Mark) error {
	began := time.Now()
	return Until(ctx, func() error {
		populated := ""
		for _, c := range LeftCgroups(m.Cgroup()) {
			c.Kill()
			if !c.Remove() {
				populated = string(c)
			}
		}
		waited := time.Since(began)
		c, err := Look(func(_ Process, mark string) bool {
			return strings.HasPrefix(mark, string(m)+"/")
		})
		if err != nil {
			return err
		}
		for _, p := range c.Ours {
			sig := syscall.SIGKILL
			if strings.HasSuffix(c.marks[p.PID], GuardianWord) && waited <= HangLimit {
				sig = syscall.SIGCONT // the guardian kills its processes itself, unless it is stopped
			}
			p.Signal(sig)
		}
		if err := c.Left(waited); err != nil || populated == "" {
			return err
		}
		return fmt.Errorf("%s is not empty", populated)
	})
}

// Until calls round until it returns nil, because /proc cannot be watched for changes.
func Until(ctx context.Context, round func() error) error {
	wait := 2 * time.Millisecond
	for {
		err := round()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(wait):
			wait = min(2*wait, 100*time.Millisecond)
		}
	}
}

// Census is a list of the living processes of a mark, without this process.
type Census struct {
	Ours   []Process      // roots and their descendants
	unsure []Process      // their mark cannot be read yet
	marks  map[int]string // by pid
}

// Look finds the processes that root accepts, and their descendants.
func Look(root func(p Process, mark string) bool) (Census, error) {
	all, err := All()
	if err != nil {
		return Census{}, err
	}
	c := Census{marks: make(map[int]string)}
	maybe := make(map[int]bool)
	for _, p := range all {
		if p.Gone() {
			continue
		}
		mark, sure := p.Environ(MarkVariable)
		if mark != "" {
			c.marks[p.PID] = mark
		}
		maybe[p.PID] = !sure
	}
	for _, p := range Below(all, func(p Process) bool { return root(p, c.marks[p.PID]) }) {
		delete(maybe, p.PID)
		if !p.Gone() && p.PID != os.Getpid() {
			c.Ours = append(c.Ours, p)
		}
	}
	for _, p := range all {
		if maybe[p.PID] && p.PID != os.Getpid() {
			c.unsure = append(c.unsure, p)
		}
	}
	return c, nil
}

// Left returns an error if a process is left. Processes with an unreadable mark count only until
// HangLimit has passed.
func (c Census) Left(waited time.Duration) error {
	left := c.Ours
	if waited <= HangLimit {
		left = append(slices.Clip(left), c.unsure...)
	}
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("processes %s are left", pids(left))
}

func pids(all []Process) string {
	var b strings.Builder
	for i, p := range all {
		if i == 10 {
			fmt.Fprintf(&b, " and %d more", len(all)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, p.PID)
	}
	return b.String()
}

// Cgroup returns the prefix of the cgroup names of a mark.
func (m Mark) Cgroup() string { return "elastic-" + string(m) + "-" }

// SetMark returns env with MarkVariable set to value.
func SetMark(env []string, value string) []string {
	marked := make([]string, 0, len(env)+1)
	for _, e := range env {
		if !strings.HasPrefix(e, MarkVariable+"=") {
			marked = append(marked, e)
		}
	}
	return append(marked, MarkVariable+"="+value)
}
