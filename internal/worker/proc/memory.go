package proc

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Memory returns the total and free memory of this machine, or of the smallest cgroup with a limit
// that this process is in. It returns 0, 0 if they are unknown.
func Memory() (total, free int64) {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0
	}
	total, free = kilobytes(string(info), "MemTotal:")<<10, kilobytes(string(info), "MemAvailable:")<<10
	for dir := OwnCgroup(); dir != "" && dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		if limit, left, ok := limited(dir, "memory.max", "memory.current"); ok && left < free {
			total, free = limit, left
		}
	}
	dir := ownDir(memoryDir)
	if limit, left, ok := limited(dir, "memory.limit_in_bytes", "memory.usage_in_bytes"); ok && left < free {
		total, free = limit, left
	}
	return total, free
}

// limited returns the limit of the cgroup dir, and how much of it is left. The page cache counts as
// free.
func limited(dir, limitFile, usageFile string) (limit, left int64, ok bool) {
	number := func(name string) (int64, error) {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return 0, err
		}
		return strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64) // fails for "max"
	}
	limit, err := number(limitFile)
	if err != nil {
		return 0, 0, false
	}
	used, err := number(usageFile)
	if err != nil {
		return 0, 0, false
	}
	stat, err := os.ReadFile(filepath.Join(dir, "memory.stat"))
	if err != nil {
		return 0, 0, false
	}
	return limit, limit - used + int64(max(0, field(string(stat), "inactive_file"))), true
}

// kilobytes reads one number of /proc/meminfo, 0 if it is missing.
func kilobytes(info, name string) int64 {
	for line := range strings.Lines(info) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}

// Resident returns the memory of a process. Shared memory counts in proportion.
func Resident(pid int) int64 {
	rollup, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		return 0
	}
	return kilobytes(string(rollup), "Pss:") << 10
}
