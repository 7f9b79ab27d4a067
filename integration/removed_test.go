package integration

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// removeUnder removes the directory of a node while its agent has it open.
func (p *sandbox) removeUnder(node string) {
	p.t.Helper()
	dirs, err := filepath.Glob(filepath.Join(p.dir, "state", "elastic", "*", "nodes", node))
	if err != nil || len(dirs) != 1 {
		p.t.Fatalf("the disk of %s: %v %v", node, dirs, err)
	}
	// in one step, because the agent writes into it meanwhile
	if err := os.Rename(dirs[0], p.path("removed-"+node)); err != nil {
		p.t.Fatal(err)
	}
}

// endsWithoutStore waits until an agent whose directory was removed has left the job.
func (p *sandbox) endsWithoutStore(x *proc) {
	p.t.Helper()
	p.ends(x, 125)
	if said := x.stderr(); !strings.Contains(said, "[E-STATE-DIR]") ||
		!strings.Contains(said, "start this agent again") {
		p.t.Errorf("it says:\n%s", tail(said))
	}
}

// The directory of rank 0's node is removed while its agent runs. The node leaves, the others go on
// from the newest commit with another node, and the same agent can be started again.
func TestTheStoreOfANodeIsRemoved(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	more := "--steps=1500" // fifteen seconds: the node has the time to leave
	nodes := map[string]*proc{"a": trainNode(p, "a", 2, more), "b": trainNode(p, "b", 2, more)}
	zero, other := "a", "b"
	if p.running("x", 1, 2).rank("a") != 0 {
		zero, other = "b", "a"
	}
	p.committed("x", 3)
	p.removeUnder(zero)
	p.endsWithoutStore(nodes[zero])
	again := trainNode(p, zero, 2, more)
	p.ends(nodes[other], 0)
	p.ends(again, 0)
	if from := steps(nodes[other], again)[2]; from == 0 {
		t.Errorf("generation 2 started from scratch:\n%s\n%s", nodes[other].stdout(), again.stdout())
	}
}

// The same in a job in which each node saves a part. Afterwards all parts have two copies again, so
// another machine may be lost with its disk.
func TestTheStoreOfANodeWithAPartIsRemoved(t *testing.T) {
	t.Parallel()
	j, finish := newShardedJob(t, nil, "0.02")
	j.join(3)
	st := j.running("x", 1, 3)
	j.commitsOf("x", 1, 2)
	newest, zero := j.newest(), st.World[0].Node
	j.removeUnder(zero)
	j.endsWithoutStore(j.nodes[zero])
	delete(j.nodes, zero)
	j.join(3)
	st = j.after("x", 1, 3)
	if step := j.from(st.Generation, 3); step < newest {
		t.Errorf("generation %d goes on from step %d, and step %d was committed", st.Generation, step, newest)
	}
	st = j.lose(st, 3)
	j.commitsOf("x", st.Generation, 1)
	if err := os.WriteFile(finish, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	j.trainsToItsEnd()
	for _, x := range j.nodes {
		j.ends(x, 0)
	}
}

// trio is a job of three nodes, by name.
type trio struct {
	*sandbox
	nodes map[string]*proc
}

// newTrio starts nodes a, b and c, and waits for checkpoints.
func newTrio(t *testing.T) *trio {
	c := &trio{newSandbox(t), map[string]*proc{}}
	c.start("a", "b", "c")
	c.running("x", 1, 3)
	c.committed("x", 3)
	return c
}

func (c *trio) start(names ...string) {
	for _, name := range names {
		c.nodes[name] = trainNode(c.sandbox, name, 3, "--steps=100000")
	}
}

// kill ends a node by SIGKILL.
func (c *trio) kill(name string) {
	c.t.Helper()
	c.sandbox.kill(c.nodes[name])
	<-c.nodes[name].done
	delete(c.nodes, name)
}

// newest returns the step of the newest checkpoint, and those of the nodes that have it.
func (c *trio) newest() (step float64, holders []string) {
	c.t.Helper()
	k, _ := c.object("status", "x", "-o", "json")["checkpoint"].(map[string]any)
	step, _ = k["step"].(float64)
	all, _ := k["holders"].([]any)
	for _, h := range all {
		if name, _ := h.(string); c.nodes[name] != nil {
			holders = append(holders, name)
		}
	}
	return step, holders
}

// copied waits until two of the nodes have the newest checkpoint, and returns one of them.
func (c *trio) copied() (holder string) {
	c.t.Helper()
	until(c.t, "the newest checkpoint has two copies", func() error {
		_, holders := c.newest()
		if len(holders) < 2 {
			return fmt.Errorf("it is on %v", holders)
		}
		holder = holders[0]
		return nil
	})
	return holder
}

// While a job waits for a node, the nodes that are left make the copies that were lost with it. So another
// machine may be lost meanwhile.
func TestCopiesAreMadeWhileTheJobWaits(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	for range 2 {
		lost := c.copied()
		c.kill(lost)
		c.wipe(lost)
	}
	saved, _ := c.newest()
	c.start("d", "e")
	c.after("x", 1, 3)
	until(t, "they say from which step they go on", func() error {
		if from := steps(slices.Collect(maps.Values(c.nodes))...)[2]; float64(from) != saved {
			return fmt.Errorf("from %d, and step %v was saved", from, saved)
		}
		return nil
	})
	c.must("stop", "x")
}

// The same where all agents are started again, and one comes without its disk.
func TestCopiesAreMadeWhenAllStartAgain(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	lost := c.copied()
	others := slices.DeleteFunc([]string{"a", "b", "c"}, func(name string) bool { return name == lost })
	for _, name := range []string{"a", "b", "c"} {
		c.kill(name)
	}
	c.wipe(lost)
	c.start(others...)
	c.copied()
	c.must("stop", "x")
}

// If the directories of all nodes are removed, no checkpoint is left. The nodes stay, because the state
// of their workers is all that there is. That holds for parts, too.
func TestTheStoresOfAllNodesAreRemoved(t *testing.T) {
	t.Parallel()
	j, finish := newShardedJob(t, nil, "0.02")
	j.join(3)
	j.running("x", 1, 3)
	j.commitsOf("x", 1, 2)
	for name := range j.nodes {
		j.removeUnder(name)
	}
	for _, x := range j.nodes {
		j.says(x, "was removed or replaced")
	}
	removed := time.Now()
	until(t, "ten seconds pass, and no node leaves", func() error {
		for _, x := range j.nodes {
			if status, ended := x.ended(); ended {
				t.Fatalf("%s ended with %d\n%s", x, status, tail(x.stderr()))
			}
		}
		if d := time.Since(removed); d < 10*time.Second {
			return fmt.Errorf("%s", d)
		}
		return nil
	})
	if err := os.WriteFile(finish, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range j.nodes {
		j.ends(x, 0)
	}
}

// A node that stays without its store leaves when its workers have ended, because it cannot begin a
// generation.
func TestANodeWithoutStoreFails(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	more := "--steps=100000"
	a, b := trainNode(p, "a", 2, more), trainNode(p, "b", 2, more)
	p.running("x", 1, 2)
	p.committed("x", 1)
	p.removeUnder("a")
	p.removeUnder("b")
	p.says(a, "was removed or replaced")
	p.says(b, "was removed or replaced")
	for _, w := range p.workersOf("a", "elastic-demo") {
		w.signal(syscall.SIGKILL)
	}
	p.endsWithoutStore(a)
	p.endsWithoutStore(b)
}
