package disk

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/elasticd/elastic/pkg/schema"
)

// LocalServer is the Server of an agent on the local server of its user.
const LocalServer = "local"

// Living is an agent of this host that lives, and has joined its job.
type Living struct{ Node, Job, Server string }

// LivingOf lists the agents below a state directory, by node and job. It takes no lock, because an agent
// that starts meanwhile would find its name taken. state is <state>/<host>.
func LivingOf(state string) ([]Living, error) {
	files := hostFiles(state)
	locks, err := filepath.Glob(filepath.Join(state, nodesDir, "*", "jobs", "*", lockFile))
	if err != nil {
		return nil, fmt.Errorf("list the nodes of this host: %w", err)
	}
	if len(locks) == 0 {
		return nil, nil
	}
	table, err := os.ReadFile("/proc/locks")
	if err != nil {
		return nil, fmt.Errorf("find the agents of this host: %w", err)
	}
	var all []Living
	for _, lock := range locks {
		dir := filepath.Dir(lock)
		job, node := filepath.Base(dir), filepath.Base(filepath.Dir(filepath.Dir(dir)))
		b, err := files.ReadFile(filepath.Join(nodeDir(node, schema.Job(job)), memoryFile))
		var r remembered
		if err != nil || json.Unmarshal(b, &r) != nil || r.Server == "" || !held(string(table), lock) {
			continue
		}
		all = append(all, Living{Node: node, Job: job, Server: r.Server})
	}
	slices.SortFunc(all, func(a, b Living) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Job, b.Job))
	})
	return all, nil
}

// held reports whether the table of the kernel's locks has that of a file, and its process has the file
// open. The table names a file by its inode, which two file systems may share.
func held(table, path string) bool {
	file, err := os.Stat(path)
	if err != nil {
		return false
	}
	st, ok := file.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	for line := range strings.Lines(table) {
		// 1: FLOCK ADVISORY WRITE 4711 fe:01:131090 0 EOF
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" || !strings.HasSuffix(f[5], ":"+strconv.FormatUint(st.Ino, 10)) {
			continue
		}
		open, err := filepath.Glob(filepath.Join("/proc", f[4], "fd", "*"))
		if err == nil && slices.ContainsFunc(open, func(fd string) bool {
			fi, err := os.Stat(fd)
			return err == nil && os.SameFile(fi, file)
		}) {
			return true
		}
	}
	return false
}
