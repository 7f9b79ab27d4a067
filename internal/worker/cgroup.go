package worker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// cgroup is a cgroup v2 directory of one group; "" is none, and every method
// then does nothing.
type cgroup string

// newCgroup makes a cgroup below our own. None is no error: in most containers
// it cannot be had, and the guardian does without.
func newCgroup(name string) cgroup {
	own := ownCgroup()
	if own == "" {
		return ""
	}
	dir := filepath.Join(own, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return ""
	}
	if _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); err != nil { // before Linux 5.14
		os.Remove(dir)
		return ""
	}
	return cgroup(dir)
}

// leftCgroups finds those of an earlier agent.
func leftCgroups(prefix string) []cgroup {
	own := ownCgroup()
	if own == "" {
		return nil
	}
	entries, err := os.ReadDir(own)
	if err != nil {
		return nil
	}
	var left []cgroup
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), prefix) {
			left = append(left, cgroup(filepath.Join(own, e.Name())))
		}
	}
	return left
}

// kill ends every process in it, whatever session or parent it has.
func (c cgroup) kill() {
	if c != "" {
		os.WriteFile(filepath.Join(string(c), "cgroup.kill"), []byte("1"), 0)
	}
}

// populated reports whether a process lives in it or below it.
func (c cgroup) populated() bool {
	if c == "" {
		return false
	}
	events, err := os.ReadFile(filepath.Join(string(c), "cgroup.events"))
	return err == nil && field(string(events), "populated") == 1
}

// remove reports whether it is away now.
func (c cgroup) remove() bool {
	if c == "" {
		return true
	}
	err := os.Remove(string(c))
	return err == nil || errors.Is(err, fs.ErrNotExist)
}

// ownCgroup is the directory of the cgroup v2 that this process is in, under a
// hybrid mount too; "" if there is none.
func ownCgroup() string {
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	return cgroupDir(string(self), string(mounts))
}

// cgroupDir joins what /proc/self/cgroup and /proc/self/mountinfo say.
func cgroupDir(self, mounts string) string {
	var path string
	for line := range strings.Lines(self) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			path = p
		}
	}
	if path == "" || strings.HasPrefix(path, "/..") { // above what this namespace shows
		return ""
	}
	for line := range strings.Lines(mounts) {
		mount, kind, ok := strings.Cut(line, " - ")
		f := strings.Fields(mount)
		if !ok || len(f) < 5 || !strings.HasPrefix(kind, "cgroup2 ") {
			continue
		}
		rel, err := filepath.Rel(f[3], path)
		if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
			continue
		}
		return filepath.Join(f[4], rel)
	}
	return ""
}

// oomKills counts the processes that the kernel killed for memory in dir or
// the nearest cgroup above it that counts them; -1 if none does.
func oomKills(dir string) int {
	for ; dir != "" && dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		events, err := os.ReadFile(filepath.Join(dir, "memory.events"))
		if err == nil {
			return field(string(events), "oom_kill")
		}
	}
	return -1
}

// field reads one number of a flat keyed file; -1 if it is not there.
func field(file, name string) int {
	for line := range strings.Lines(file) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			if n, err := strconv.Atoi(strings.TrimSpace(value)); err == nil {
				return n
			}
		}
	}
	return -1
}
