package proc

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Cgroup is the cgroup v2 directory of one group of processes. "" means none: every method then
// does nothing.
type Cgroup string

// NewCgroup makes a cgroup below that of this process. It returns "" if that is not possible, as in
// most containers. The guardian works without one.
func NewCgroup(name string) Cgroup {
	own := OwnCgroup()
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
	return Cgroup(dir)
}

// LeftCgroups returns the cgroups with the prefix, which an earlier agent left.
func LeftCgroups(prefix string) []Cgroup {
	own := OwnCgroup()
	if own == "" {
		return nil
	}
	entries, err := os.ReadDir(own)
	if err != nil {
		return nil
	}
	var left []Cgroup
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), prefix) {
			left = append(left, Cgroup(filepath.Join(own, e.Name())))
		}
	}
	return left
}

// Kill ends every process in the cgroup, in any session and with any parent.
func (c Cgroup) Kill() {
	if c != "" {
		os.WriteFile(filepath.Join(string(c), "cgroup.kill"), []byte("1"), 0)
	}
}

// Populated reports whether a process lives in the cgroup or below it.
func (c Cgroup) Populated() bool {
	if c == "" {
		return false
	}
	events, err := os.ReadFile(filepath.Join(string(c), "cgroup.events"))
	return err == nil && field(string(events), "populated") == 1
}

// Remove removes the cgroup, and reports whether it is gone.
func (c Cgroup) Remove() bool {
	if c == "" {
		return true
	}
	err := os.Remove(string(c))
	return err == nil || errors.Is(err, fs.ErrNotExist)
}

// OwnCgroup is the directory of the cgroup v2 that this process is in, under a
// hybrid mount too; "" if there is none.
func OwnCgroup() string { return ownDir(cgroupDir) }

// ownDir finds a cgroup directory of this process.
func ownDir(find func(self, mounts string) string) string {
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	return find(string(self), string(mounts))
}

// cgroupDir returns the cgroup v2 directory from /proc/self/cgroup and /proc/self/mountinfo.
func cgroupDir(self, mounts string) string {
	return hierarchy(self, mounts, func(controllers string) bool { return controllers == "" },
		func(kind, _ string) bool { return kind == "cgroup2" })
}

// memoryDir returns the directory of the v1 memory controller, which a hybrid mount has.
func memoryDir(self, mounts string) string {
	has := func(list string) bool { return slices.Contains(strings.Split(list, ","), "memory") }
	return hierarchy(self, mounts, has,
		func(kind, options string) bool { return kind == "cgroup" && has(options) })
}

// hierarchy returns the directory of this process in the hierarchy that the arguments accept, "" if
// there is none.
func hierarchy(
	self, mounts string, controls func(controllers string) bool, mounted func(kind, options string) bool,
) string {
	var path string
	for line := range strings.Lines(self) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 && controls(f[1]) {
			path = f[2]
		}
	}
	if path == "" || strings.HasPrefix(path, "/..") { // above the root of this namespace
		return ""
	}
	for line := range strings.Lines(mounts) {
		mount, kind, ok := strings.Cut(strings.TrimSpace(line), " - ")
		f, k := strings.Fields(mount), strings.Fields(kind)
		if !ok || len(f) < 5 || len(k) < 3 || !mounted(k[0], k[len(k)-1]) {
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

// MemoryKills returns how many processes the kernel killed for memory in the v1 cgroup of this
// process, in which workers are too; -1: unknown.
func MemoryKills() int {
	control, err := os.ReadFile(filepath.Join(ownDir(memoryDir), "memory.oom_control"))
	if err != nil {
		return -1
	}
	return field(string(control), "oom_kill")
}

// OOMKills returns how many processes the kernel killed for memory in dir, or in the nearest cgroup
// above it that counts them; -1: none does.
func OOMKills(dir string) int {
	for ; dir != "" && dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		events, err := os.ReadFile(filepath.Join(dir, "memory.events"))
		if err == nil {
			return field(string(events), "oom_kill")
		}
	}
	return -1
}

// field reads one number of a flat keyed file; -1: it is missing.
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
