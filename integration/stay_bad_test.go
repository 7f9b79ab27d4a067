package integration

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
)

// newMistaken has nodes run testdata/stay_bad.py with a mistake.
func newMistaken(t *testing.T, mistake string, nodes ...string) *stayers {
	s := newStayers(t)
	s.script = strings.TrimSuffix(s.script, "stay.py") + "stay_bad.py"
	s.arguments = []string{mistake}
	for _, n := range nodes {
		s.up(n)
	}
	return s
}

// said waits until the standard error of one of the nodes has the text.
func (s *stayers) said(text string) {
	s.t.Helper()
	within(s.t, 4*limit, "a worker says "+text, func() error {
		for _, x := range s.nodes {
			if strings.Contains(x.stderr()+x.stdout(), text) {
				return nil
			}
		}
		return errors.New("it does not")
	})
}

// lose kills a node.
func (s *stayers) lose(node string) {
	s.t.Helper()
	_ = s.nodes[node].kill(syscall.SIGKILL)
	<-s.nodes[node].done
	delete(s.nodes, node)
}

// A DistributedDataParallel that outlives its world is refused with one sentence.
func TestAWrapperOfAnOldWorldIsRefused(t *testing.T) {
	t.Parallel()
	s := newMistaken(t, "kept", "a", "b", "c")
	s.trains(0, "a", "b", "c")
	s.lose("c")
	s.said("is called in another world: make it in the training function")
}

// Workers with sharded state say so once, and are started again when the world changes.
func TestShardedStateIsReportedAndNotKept(t *testing.T) {
	t.Parallel()
	s := newMistaken(t, "zero", "a", "b", "c")
	s.reportedAndNotKept("ZeroRedundancyOptimizer")
}

// reportedAndNotKept loses one of three nodes. It expects that each process says once what spreads its
// state, and that none stays.
func (s *stayers) reportedAndNotKept(kind string) {
	t := s.t
	t.Helper()
	g := s.trains(0, "a", "b", "c")
	s.said("the state is sharded (" + kind + ")")
	before := s.training("a").pid
	s.lose("c")
	s.trains(g, "a", "b")
	if s.training("a").pid == before {
		t.Error("a worker with sharded state stayed in its process")
	}
	if said := strings.Count(s.nodes["a"].stderr()+s.nodes["a"].stdout(), "the state is sharded"); said > 2 {
		t.Errorf("two processes said it %d times", said)
	}
}

// A state that cannot be copied is reported with one sentence when a node comes.
func TestAStateThatCannotBeCopied(t *testing.T) {
	t.Parallel()
	s := newMistaken(t, "uncopied", "a", "b")
	s.trains(0, "a", "b")
	s.up("c")
	s.said("the state cannot be given to the ranks that have none")
}

// A rank raises an error of its own while another node dies: the error is reported, or the next world
// trains on.
func TestAnErrorOfTheScriptWhileANodeDies(t *testing.T) {
	t.Parallel()
	s := newMistaken(t, "own", "a", "b", "c")
	g := s.trains(0, "a", "b", "c")
	if err := os.WriteFile(s.path("own"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.lose("c")
	s.trains(g, "a", "b")
}

// A step that catches each Exception is left at its next call of a module, in the same process.
func TestAStepThatCatchesExceptionsIsLeft(t *testing.T) {
	t.Parallel()
	s := newMistaken(t, "exceptions", "a", "b", "c")
	g := s.trains(0, "a", "b", "c")
	before := [2]int{s.training("a").pid, s.training("b").pid}
	s.lose("c")
	s.trains(g, "a", "b")
	if now := [2]int{s.training("a").pid, s.training("b").pid}; now != before {
		t.Errorf("the workers were processes %v, and are %v", before, now)
	}
}

// A step that catches BaseException is named in a notice, and its worker is started again.
func TestAStepThatCatchesEveryErrorIsReported(t *testing.T) {
	t.Parallel()
	s := newMistaken(t, "everything", "a", "b", "c")
	g := s.trains(0, "a", "b", "c")
	s.lose("c")
	s.said("the script catches WorldChanged (BaseException); let it through: this worker is started again")
	s.trains(g, "a", "b")
}

// A helper of another version than the agent says so. Its workers train, and are started again when the
// world changes.
func TestAHelperOfAnotherVersion(t *testing.T) {
	t.Parallel()
	s := newMistaken(t, "version", "a", "b", "c")
	g := s.trains(0, "a", "b", "c")
	before := s.training("a").pid
	s.said("this worker is started again when the world changes: " +
		"the helper speaks version 2, this agent version 1")
	s.lose("c")
	s.trains(g, "a", "b")
	if s.training("a").pid == before {
		t.Error("a worker with a helper of another version stayed in its process")
	}
}

// NCCL was never seen right in place. Its workers say so, train, and are started again when the world
// changes.
func TestNCCLIsNotKept(t *testing.T) {
	t.Parallel()
	s := newMistaken(t, "nccl", "a", "b", "c")
	g := s.trains(0, "a", "b", "c")
	before := s.training("a").pid
	s.said("NCCL was never seen to be right in place")
	s.lose("c")
	s.trains(g, "a", "b")
	if s.training("a").pid == before {
		t.Error("a worker with NCCL stayed in its process")
	}
}

// A group of new_group that outlives its world is reported, and its worker is started again.
func TestAGroupOfAnOldWorldIsReported(t *testing.T) {
	t.Parallel()
	s := newMistaken(t, "group", "a", "b")
	g := s.trains(0, "a", "b")
	s.up("c")
	s.said("a group of new_group is kept")
	s.trains(g, "a", "b", "c")
}
