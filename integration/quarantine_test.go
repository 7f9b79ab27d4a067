package integration

import (
	"fmt"
	"strings"
	"testing"
)

const idleWorker = "while :; do sleep 1; done"

// nodeState waits until a node of job x is in a state.
func (p *sandbox) nodeState(node, want string) {
	p.t.Helper()
	until(p.t, node+" is "+want, func() error {
		out, err := p.try("nodes", "x", "-o", "json")
		if err != nil {
			return err
		}
		if !strings.Contains(out, fmt.Sprintf(`"node":%q,"state":%q`, node, want)) {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
}

// A second node with a mistyped program is refused. If a flag says that the program is intended,
// and it fails twice, the node is put into quarantine. The first node trains on, and no restart is
// spent. Scaling to more nodes than there are restarts no worker.
func TestMistypedNewcomer(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	a := p.run("--np=1:2", "--job-id=x", "--node=a", "--last-call=100ms", "sh", "-c", idleWorker)
	p.running("x", 1, 1)
	p.refused(2, "E-JOB-DIFFERS", "run", "--np=1:2", "--job-id=x", "--node=b", "sh", "-c", "exit 2")
	b := p.run("--np=1:2", "--job-id=x", "--node=b", "--other-program", "sh", "-c", "exit 2")
	p.says(b, "this node runs another program than job x")
	p.says(b, "this node is in quarantine for 1m0s: rank 1 on b ended with exit code 2")
	p.says(a, "b is in quarantine for 1m0s: rank 1 on b ended with exit code 2")
	p.running("x", 4, 1)
	p.nodeState("b", "quarantined")
	if out := p.must("status", "x", "-o", "json"); !strings.Contains(out, `"restarts":{"used":0`) {
		t.Errorf("a restart was spent: %s", out)
	}
	if got, want := p.must("scale", "x", "2", "--dry-run"),
		"dry run, nothing was changed: asked for 2, 1 here; training goes on with 1\n"; got != want {
		t.Errorf("scale says %q, want %q", got, want)
	}
	p.must("admit", "b", "--job-id=x")
	p.running("x", 7, 1)
	p.nodeState("b", "quarantined")
	for _, e := range kinds(p.events("x"), "node_left") {
		if e.Reason != "quarantined" {
			t.Errorf("b left for another reason: %s", e.Text)
		}
	}
	p.must("stop", "x")
	p.ends(a, 93)
}

// A node that is lost again within a minute is put into quarantine. The other one trains on without
// it.
func TestFlappingNode(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	a := p.run("--np=1:2", "--job-id=x", "--node=a", "--last-call=100ms", "sh", "-c", idleWorker)
	p.running("x", 1, 1)
	for i := range 2 {
		b := p.run("--np=1:2", "--job-id=x", "--node=b", "sh", "-c", idleWorker)
		p.running("x", 2*i+2, 2)
		p.kill(b)
		p.running("x", 2*i+3, 1)
	}
	b := p.run("--np=1:2", "--job-id=x", "--node=b", "sh", "-c", idleWorker)
	p.says(b, "this node is in quarantine for 30s: it was lost again within a minute (2 times)")
	p.nodeState("b", "quarantined")
	p.must("admit", "b", "--job-id=x")
	p.running("x", 6, 2)
	p.must("stop", "x")
	p.ends(a, 93)
	p.ends(b, 93)
}

// trainsWithout waits until n other nodes than node train.
func (p *sandbox) trainsWithout(node string, n int) {
	p.t.Helper()
	until(p.t, fmt.Sprintf("%d nodes train without %s", n, node), func() error {
		out, err := p.try("nodes", "x", "-o", "json")
		if err == nil && strings.Count(out, `"state":"running"`) != n {
			err = fmt.Errorf("%s", out)
		}
		return err
	})
}
