package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
)

// ByMap is the reason to wait for a file that a process has mapped for writing.
const ByMap = "a worker has it mapped for writing"

// ForWriting finds the wanted files that a process of the workers has open for writing, or mapped
// for writing, each with the reason to wait for it. If that cannot be known, blind says why: a file
// counts as closed only if all processes that could have it open run and can be inspected.
func ForWriting(roots []int, want map[dirfs.FileID]bool) (open map[dirfs.FileID]string, blind string) {
	group, blind := workerProcesses(roots)
	if blind != "" {
		return nil, blind
	}
	open = map[dirfs.FileID]string{}
	for _, pid := range group {
		if err := openFiles(pid, want, open); err != nil && !errors.Is(err, fs.ErrNotExist) &&
			!errors.Is(err, syscall.ESRCH) {
			return nil, fmt.Sprintf("the open files of process %d cannot be seen: %v", pid, err)
		}
	}
	// A worker that ended meanwhile may have closed its files before it had finished them.
	for _, r := range roots {
		if _, runs := parentOf(r); !runs {
			return nil, fmt.Sprintf("worker process %d has ended", r)
		}
	}
	return open, ""
}

// openFiles adds to open the wanted files that a process has open or mapped for writing.
func openFiles(pid int, want map[dirfs.FileID]bool, open map[dirfs.FileID]string) error {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, d := range list {
		fi, err := os.Stat(filepath.Join(dir, d.Name()))
		if err != nil || !fi.Mode().IsRegular() {
			continue
		}
		id := dirfs.StateOf(fi).ID()
		if want[id] && writable(pid, d.Name()) {
			open[id] = fmt.Sprintf("a worker (process %d) has it open for writing", pid)
		}
	}
	return mappedFiles(pid, want, open)
}

// writable reports whether a descriptor was opened for writing.
func writable(pid int, fd string) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, fd))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "flags:"); ok {
			flags, err := strconv.ParseUint(strings.TrimSpace(v), 8, 64)
			return err != nil || flags&syscall.O_ACCMODE != syscall.O_RDONLY
		}
	}
	return true
}

// mappedFiles adds the files that are mapped for writing and shared.
func mappedFiles(pid int, want map[dirfs.FileID]bool, open map[dirfs.FileID]string) error {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return err
	}
	inodes := map[uint64]dirfs.FileID{}
	for id := range want {
		inodes[id.Ino] = id
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line) // address, permissions, offset, device, inode, path
		if len(f) < 6 || len(f[1]) != 4 || f[1][1] != 'w' || f[1][3] != 's' {
			continue
		}
		ino, err := strconv.ParseUint(f[4], 10, 64)
		if err != nil || ino == 0 {
			continue
		}
		if id, ok := inodes[ino]; ok {
			open[id] = ByMap
		}
	}
	return nil
}

const exiting = 4 // PF_EXITING

// workerProcesses returns the processes of the workers: the roots, their descendants, and the
// descendants of their parent. The parent is the guardian, which adopts orphaned processes.
func workerProcesses(roots []int) (pids []int, blind string) {
	if len(roots) == 0 {
		return nil, "the workers have not started"
	}
	ours := map[int]bool{}
	var add func(pid int)
	add = func(pid int) {
		if !ours[pid] {
			ours[pid] = true
			pids = append(pids, pid)
			for _, c := range childrenOf(pid) {
				add(c)
			}
		}
	}
	for _, r := range roots {
		parent, runs := parentOf(r)
		if !runs {
			return nil, fmt.Sprintf("worker process %d has ended", r)
		}
		add(r)
		if parent > 1 && parent != os.Getpid() {
			for _, c := range childrenOf(parent) {
				add(c)
			}
		}
	}
	return pids, ""
}

// childrenOf returns the children of all threads of a process. It returns none if the process
// ended.
func childrenOf(pid int) (children []int) {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil
	}
	for _, t := range threads {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, t.Name()))
		if err != nil {
			continue
		}
		for _, f := range strings.Fields(string(b)) {
			if c, err := strconv.Atoi(f); err == nil {
				children = append(children, c)
			}
		}
	}
	return children
}

// parentOf returns the parent of a process. runs is false if the process has ended, or is ending.
func parentOf(pid int) (parent int, runs bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	// The name of the program is in parentheses, and may contain any character.
	_, rest, found := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
	f := strings.Fields(rest)
	if !found || len(f) < 7 || f[0] == "Z" || f[0] == "X" {
		return 0, false
	}
	num := func(s string) int { n, _ := strconv.Atoi(s); return n }
	if num(f[6])&exiting != 0 {
		return 0, false
	}
	return num(f[1]), true
}
