// Package proc reads and signals processes, finds those of an agent by a mark in their environment, and makes
// cgroups, on Linux.
package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is one process in /proc. Its start time distinguishes it from a later process with the
// same pid.
type Process struct {
	PID, Parent, Group, Session int
	State                       byte
	kernel                      bool // a thread of the kernel
	threads                     int
	Start                       uint64 // clock ticks since boot
	CPU                         time.Duration
	envStart, envEnd            uint64 // addresses; 0 before the process has an environment, and when it ends
}

// tick is the unit of CPU times in /proc, on every architecture that Go supports on Linux.
const tick = 10 * time.Millisecond

// Gone reports whether p has ended and waits to be reaped. A process whose first thread has ended
// looks like a zombie while its other threads run; it is not gone.
func (p Process) Gone() bool {
	return (p.State == 'Z' || p.State == 'X') && p.threads <= 1
}

// All lists /proc, without processes that end meanwhile.
func All() ([]Process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []Process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := Find(pid); ok {
			all = append(all, p)
		}
	}
	return all, nil
}

// Find reads one process. The result is false if it does not exist.
func Find(pid int) (Process, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Process{}, false
	}
	return parseStat(pid, string(stat))
}

// parseStat reads proc_pid_stat(5). The name, in parentheses, may contain
// spaces and parentheses itself.
func parseStat(pid int, stat string) (Process, bool) {
	end := strings.LastIndexByte(stat, ')')
	if end < 0 {
		return Process{}, false
	}
	f := strings.Fields(stat[end+1:]) // f[0] is field 3, the state
	if len(f) < 49 {
		return Process{}, false
	}
	p := Process{PID: pid, State: f[0][0]}
	p.Parent, _ = strconv.Atoi(f[1])
	p.Group, _ = strconv.Atoi(f[2])
	p.Session, _ = strconv.Atoi(f[3])
	const ofKernel = 0x00200000 // PF_KTHREAD
	flags, _ := strconv.ParseUint(f[6], 10, 64)
	p.kernel = flags&ofKernel != 0
	p.threads, _ = strconv.Atoi(f[17])
	user, _ := strconv.ParseUint(f[11], 10, 64)
	system, _ := strconv.ParseUint(f[12], 10, 64)
	p.CPU = time.Duration(user+system) * tick
	p.Start, _ = strconv.ParseUint(f[19], 10, 64)
	p.envStart, _ = strconv.ParseUint(f[47], 10, 64)
	p.envEnd, _ = strconv.ParseUint(f[48], 10, 64)
	return p, true
}

// Signal sends sig to p. It cannot reach a later process with the same pid: it opens a pidfd, and
// then compares the start time.
func (p Process) Signal(sig syscall.Signal) error {
	if p.PID <= 1 || p.PID == os.Getpid() {
		return fmt.Errorf("signal process %d: %w", p.PID, os.ErrPermission)
	}
	handle, err := os.FindProcess(p.PID)
	if err != nil {
		return err
	}
	defer handle.Release()
	now, ok := Find(p.PID)
	if !ok || now.Start != p.Start {
		return os.ErrProcessDone
	}
	return handle.Signal(sig)
}

// Below returns the processes that root accepts and their descendants.
func Below(all []Process, root func(Process) bool) []Process {
	children := make(map[int][]Process, len(all))
	var found, next []Process
	for _, p := range all {
		children[p.Parent] = append(children[p.Parent], p)
		if root(p) {
			next = append(next, p)
		}
	}
	seen := make(map[int]bool)
	for len(next) > 0 {
		p := next[0]
		next = next[1:]
		if !seen[p.PID] {
			seen[p.PID] = true
			found = append(found, p)
			next = append(next, children[p.PID]...)
		}
	}
	return found
}

// Environ returns the variable name of the environment that p was started with. It is "" if it is
// not set or may not be read. sure is false if the kernel shows no environment at the moment:
// during exec, and during exit, when files and ports are still open.
func (p Process) Environ(name string) (value string, sure bool) {
	for {
		env, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/environ")
		if err != nil && !errors.Is(err, syscall.ESRCH) && !errors.Is(err, fs.ErrNotExist) {
			return "", true
		}
		for entry := range bytes.SplitSeq(env, []byte{0}) {
			if value, ok := bytes.CutPrefix(entry, []byte(name+"=")); ok {
				return string(value), true
			}
		}
		if len(env) > 0 || p.kernel {
			return "", true
		}
		now, ok := Find(p.PID)
		switch {
		case !ok || now.Start != p.Start || now.Gone():
			return "", true
		case now.envEnd == 0:
			return "", false
		case now.envEnd == now.envStart: // started with an empty environment
			return "", true
		}
		// The process has got an environment meanwhile.
	}
}

// handling says how a process handles a signal.
type handling int

const (
	ByDefault handling = iota
	Caught
	Ignored
)

// Handles reads from /proc/<pid>/status how pid handles sig.
func Handles(pid int, sig syscall.Signal) handling {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return ByDefault
	}
	return parseHandling(string(status), sig)
}

func parseHandling(status string, sig syscall.Signal) handling {
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		if name != "SigCgt" && name != "SigIgn" {
			continue
		}
		mask, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err != nil || mask&(1<<(uint(sig)-1)) == 0 {
			continue
		}
		if name == "SigCgt" {
			return Caught
		}
		return Ignored
	}
	return ByDefault
}

// Maps reports whether a process has a file in its memory whose path has this part.
func Maps(pid int, part string) bool {
	maps, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/maps")
	return err == nil && strings.Contains(string(maps), part)
}
