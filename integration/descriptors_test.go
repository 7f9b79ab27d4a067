package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The queue of notices of an agent has a lower descriptor than each of its connections, in each
// generation. Linux would otherwise close the connections of a killed agent 10 to 20 ms later
// (docs/PERFORMANCE.md).
func TestConnectionsOfAKilledAgentCloseFirst(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	line := []string{"--np=1:2", "--job_id=x", "sh", "-c", sit}
	agents := []*proc{p.run(append([]string{"--node=a"}, line...)...)}
	p.running("x", 1, 1)
	agents = append(agents, p.run(append([]string{"--node=b"}, line...)...))
	p.running("x", 2, 2)
	for _, x := range agents {
		queues, sockets := descriptors(t, x.cmd.Process.Pid)
		if len(queues) != 1 || len(sockets) == 0 {
			t.Fatalf("%s has the queues %v and the sockets %v", x, queues, sockets)
		}
		for _, s := range sockets {
			if s < queues[0] {
				t.Errorf("%s has the socket %d below the queue %d", x, s, queues[0])
			}
		}
	}
	p.must("stop", "x")
}

// descriptors returns the inotify queues and the sockets that a process has open.
func descriptors(t *testing.T, pid int) (queues, sockets []int) {
	t.Helper()
	open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range open {
		is, _ := os.Readlink(path) // an error: it was closed meanwhile
		fd, err := strconv.Atoi(filepath.Base(path))
		switch {
		case err != nil:
			t.Fatal(err)
		case is == "anon_inode:inotify":
			queues = append(queues, fd)
		case strings.HasPrefix(is, "socket:"):
			sockets = append(sockets, fd)
		}
	}
	return queues, sockets
}
