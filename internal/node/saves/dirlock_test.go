package saves

import (
	"os"
	"testing"

	"github.com/elasticd/elastic/internal/problem"
)

// Nodes of one job share a checkpoint directory. Another job gets it when the last of them has
// ended. The lock file is then removed.
func TestOneJobHasADirectory(t *testing.T) {
	dir := t.TempDir()
	take := func(job string) *Mark {
		t.Helper()
		m := &Mark{Dir: dir, Node: job, Address: func() string { return "" }}
		if err := m.Take("x"); err != nil {
			t.Fatal(err)
		}
		return m
	}
	a, b := take("a"), take("b")
	other := &Mark{Dir: dir, Node: "o", Address: func() string { return "" }}
	for _, m := range []*Mark{a, b} {
		if err := other.Take("y"); !problem.Is(err, problem.CkptDir) ||
			err.Error() != "checkpoint directory "+dir+": nodes of job x save into it" {
			t.Errorf("the directory of a job with nodes is taken: %v", err)
		}
		m.Remove()
	}
	if err := other.Take("y"); err != nil {
		t.Fatal(err)
	}
	if err := (&Mark{Dir: dir}).Take("x"); err == nil {
		t.Error("the first job has it again")
	}
	other.Remove()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
