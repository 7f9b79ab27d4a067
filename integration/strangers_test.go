package integration

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/history"
)

// hide makes a machine unreachable from the others, while it can reach them, as behind a router
// that translates addresses. A node that dials it gets no answer, or is refused.
func (l *testbed) hide(name string, how ...string) (show func()) {
	l.t.Helper()
	rule := func(do string) {
		l.t.Helper()
		out, err := exec.Command("ip",
			append([]string{"netns", "exec", l.ns(name), "iptables", "-w", do, "INPUT", "-p", "tcp", "--syn", "-j"},
				how...)...).CombinedOutput()
		if err != nil {
			l.t.Fatalf("iptables: %v: %s", err, out)
		}
	}
	rule("-A")
	return func() { l.t.Helper(); rule("-D") }
}

// hidden lists what a node that dials a hidden machine gets, and what the event of its loss says.
var hidden = map[string]struct {
	how  []string
	lost string
}{
	"silence": {[]string{"DROP"}, "never reached at "},
	"refusal": {[]string{"REJECT", "--reject-with", "tcp-reset"}, "agent gone"},
}

// A node that announces an unreachable address is reported by name, with a fix. It costs the other
// nodes only one generation. When its address is right, it joins.
func TestUnreachableMachine(t *testing.T) {
	t.Parallel()
	for name, x := range hidden {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newTestbed(t, "a", "b", "c")
			w := l.audit("x")
			show := l.hide("c", x.how...)
			l.all("--np=2:3", "--job-id=x", "sh", "-c", sit)
			c := l.agents["c"]
			l.says(c, "this node cannot be reached at "+l.addr["c"]+":")
			l.says(c, "--host=ADDRESS of this machine that other nodes reach")
			l.says(c, "not joining before they do")
			l.running("x", 2, 2)
			lost := kinds(l.events("x"), "node_lost")
			if len(lost) != 1 || *lost[0].Node != "c" || !strings.Contains(lost[0].Text, "("+x.lost) {
				t.Errorf("the events say of its loss: %+v", lost)
			}
			rev := w.mark(t)
			endures(t, endure(t, 3*time.Second, 30*time.Second), "it stays out", func() error {
				if more := w.since(rev, history.NodeJoined, history.WorldProposed); len(more) > 0 {
					return fmt.Errorf("%v", more)
				}
				return nil
			})
			show()
			l.running("x", 3, 3)
			w.holds(t)
		})
	}
}

// A newcomer that others do not reach, or whose disk has no room for the checkpoint, is not taken by
// a job that trains: the job stays in its generation, and status says why. The newcomer is taken when
// it is able.
func TestANewcomerThatIsNotAble(t *testing.T) {
	t.Parallel()
	t.Run("unreached", func(t *testing.T) {
		t.Parallel()
		l := newTestbed(t, "a", "b", "c")
		l.line = []string{"--np=2:3", "--job-id=x", "--last-call=100ms", "sh", "-c", sit}
		l.again("a")
		l.again("b")
		l.running("x", 1, 2)
		show := l.hide("c", hidden["silence"].how...)
		l.again("c")
		l.says(l.agents["c"], "no generation has this node yet: this node cannot be reached at "+l.addr["c"]+":")
		l.staysOut("c", "cannot be reached")
		show()
		l.running("x", 2, 3)
	})
	t.Run("full", func(t *testing.T) {
		t.Parallel()
		p := newSandbox(t)
		p.daemons(1)
		small := p.mount("small", "size=3m")
		a := saving(p, `
open(f"{d}/more.raw", "wb").write(os.urandom(5000000))
save("weights.raw", 1)
time.sleep(1000)
`, "--np=1:2", "--last-call=100ms", "--save-files=more.raw,weights.raw")
		p.running("x", 1, 1)
		p.committed("x", 1)
		c := p.run("--node=c", "--np=1:2", "--job-id=x", "--state-dir="+small, "--checkpoint-dir="+p.path("ck-c"),
			"/usr/bin/python3", p.path("save.py"))
		p.says(c, "no generation has this node yet: no space for the checkpoint: it needs 5000")
		p.staysOut("c", "no space for the checkpoint")
		p.must("stop", "x")
		p.ends(a, 93)
	})
}

// staysOut waits until status says why a node is not taken, while the first generation runs.
func (p *sandbox) staysOut(name, why string) {
	p.t.Helper()
	p.reaches("x", "status says why "+name+" is not taken", func(s status) error {
		for _, n := range s.Nodes {
			if n.Node == name && n.State == "joining" && n.Why != nil && strings.Contains(*n.Why, why) &&
				s.State == "running" && s.Generation == 1 {
				return nil
			}
		}
		return fmt.Errorf("not so: %+v", s)
	})
}

// With two nodes no second node can confirm the silence, so the job runs, and its status reports
// the problem. A refused connection needs no confirmation. Then the job waits.
func TestTheOtherOfTwoDoesNotReachIt(t *testing.T) {
	t.Parallel()
	for name, x := range hidden {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newTestbed(t, "a", "c")
			show := l.hide("c", x.how...)
			l.all("--np=2", "--job-id=x", "sh", "-c", sit)
			l.says(l.agents["c"], "this node cannot be reached at "+l.addr["c"]+":")
			l.reaches("x", "c in doubt, or lost, by name", func(s status) error {
				for _, n := range s.Nodes {
					switch {
					case n.Node != "c":
					case name == "silence" && n.Why != nil && *n.Why == "never reached, says a" &&
						s.State == "running" && s.Generation == 1,
						name == "refusal" && n.State == "lost" && s.State == "waiting":
						return nil
					}
				}
				return fmt.Errorf("not so: %+v", s.Nodes)
			})
			show()
			l.reaches("x", "both run", func(s status) error {
				if s.State != "running" || s.node("c") != "running" || s.Generation > 2 {
					return fmt.Errorf("not yet")
				}
				return nil
			})
		})
	}
}

// Two clusters have a job of the same name, and a node of one is started with the address of the
// other. It is refused, or is a spare there. Neither job is disturbed.
func TestTheOtherCluster(t *testing.T) {
	t.Parallel()
	p, q := newSandbox(t), newSandbox(t)
	p.daemons(1)
	q.daemons(1)
	wrong := p.at
	p.undisturbed("elasticd", 2, func([]*proc) {
		q.undisturbed("elasticd", 3, func([]*proc) {
			here := q.at
			q.at = wrong
			q.refused(1, "E-NODE-NAME", "run", "--np=3", "--job-id=x", "--node=a", "sh", "-c", sit)
			q.refused(2, "E-JOB-DIFFERS", "run", "--np=3", "--job-id=x", "--node=e", "--nproc-per-node=2",
				"sh", "-c", sit)
			e := q.run("--np=3", "--job-id=x", "--node=e", "sh", "-c", sit)
			q.says(e, "job x is at np=2; --np=3 is not used")
			q.says(e, "standing by as a spare")
			if err := e.kill(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			q.ends(e, 75)
			q.at = here
		})
	})
}
