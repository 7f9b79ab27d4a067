package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Names in the environment that tell whose a process is. The value is a Mark,
// a slash, and an id of the group.
const (
	workerMark   = "ELASTIC_WORKER_MARK"
	guardianMark = "ELASTIC_GUARDIAN_MARK"
)

// hangLimit is how long a guardian may take before it is taken for hung.
const hangLimit = 2 * time.Second

// Mark stands for one state directory of one node and job. Two agents that
// live at the same time never have the same.
type Mark string

// MarkFor makes the mark of the state directory of a node and job, the one
// whose lock the agent holds.
func MarkFor(dir string) Mark {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	sum := sha256.Sum256([]byte(dir))
	return Mark(hex.EncodeToString(sum[:8]))
}

// Sweep kills what an earlier agent of the same mark left and waits until it
// is gone: workers, what they started, guardians, cgroups. The caller holds
// the lock of the state directory, so that no living agent is behind them. It
// fails only when ctx ends, and says then what is left.
func Sweep(ctx context.Context, m Mark) error {
	prefix := string(m) + "/"
	hung := time.Now().Add(hangLimit)
	return until(ctx, func() []process {
		all, err := processes()
		if err != nil {
			return nil
		}
		populated := false
		for _, c := range leftCgroups(cgroupPrefix(m)) {
			c.kill()
			if !c.remove() {
				populated = true
			}
		}
		var left []process
		guardians := make(map[int]bool)
		for _, p := range all {
			if !p.gone() && strings.HasPrefix(p.environ(guardianMark), prefix) {
				guardians[p.pid] = true
				left = append(left, p)
				p.signal(syscall.SIGCONT) // it has seen its agent's end, unless it was stopped
				if time.Now().After(hung) {
					p.signal(syscall.SIGKILL)
				}
			}
		}
		workers := below(all, func(p process) bool {
			return guardians[p.ppid] || strings.HasPrefix(p.environ(workerMark), prefix)
		})
		for _, p := range living(workers) {
			p.signal(syscall.SIGKILL)
			left = append(left, p)
		}
		if len(left) == 0 && populated {
			left = append(left, process{})
		}
		return left
	})
}

// until repeats round until it finds nothing more. /proc cannot be watched.
func until(ctx context.Context, round func() []process) error {
	wait := 2 * time.Millisecond
	for {
		left := round()
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("end processes %s: %w", pids(left), context.Cause(ctx))
		case <-time.After(wait):
			wait = min(2*wait, 100*time.Millisecond)
		}
	}
}

// marked returns the processes that carry exactly this mark of a group, and
// what descends from them.
func marked(mark string) []process {
	all, err := processes()
	if err != nil {
		return nil
	}
	return living(below(all, func(p process) bool { return p.environ(workerMark) == mark }))
}

func living(all []process) []process {
	var some []process
	for _, p := range all {
		if !p.gone() && p.pid != os.Getpid() {
			some = append(some, p)
		}
	}
	return some
}

func pids(all []process) string {
	var b strings.Builder
	for i, p := range all {
		if i == 10 {
			fmt.Fprintf(&b, " and %d more", len(all)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, p.pid)
	}
	return b.String()
}

func cgroupPrefix(m Mark) string { return "elastic-" + string(m) + "-" }
