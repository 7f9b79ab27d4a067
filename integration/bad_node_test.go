package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// badWorker trains, and is bad on nodes of that name in one of several ways.
const badWorker = `case $ELASTIC_NODE in bad*) ;; *) exec elastic-demo --epochs=100000 ;; esac
broken() { echo "a device is broken" >&2; exit 1; }
case $HOW in
at-once) broken ;;
soon) sleep 0.3; broken ;;
later) sleep 5 & wait; broken ;;
first-steps) elastic-demo --epochs=100000 & sleep 2; kill -9 $!; broken ;;
out-of-memory) (sleep 2; kill -9 $$) & exec elastic-demo --epochs=100000 ;;
hangs) (sleep 2; kill -STOP $$) & exec elastic-demo --epochs=100000 ;;
no-program) exec ./no-such-program ;;
esac`

// badWays are the ways in which a node is bad, and how many generations it may cost before it is left out:
// two without a step, else as many as the job has restarts, and one.
var badWays = []struct {
	how  string
	most int
}{
	{"at-once", 2}, {"first-steps", 4}, {"soon", 2}, {"no-program", 2}, {"later", 4}, {"out-of-memory", 4},
	{"hangs", 4},
}

// One or two bad nodes among two to four healthy ones end no job, whenever they come: the others train on,
// no restart is used in the end, and one bad node has no checkpoint distrusted. COUNT is the number of mixes.
func TestBadNodes(t *testing.T) {
	t.Parallel()
	count := 2
	if n, err := strconv.Atoi(os.Getenv("COUNT")); err == nil {
		count = n
	}
	for i := range count {
		way := badWays[i%len(badWays)]
		t.Run(fmt.Sprintf("%s-%d", way.how, i), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(i), 37))
			healthy, bad := []string{"a", "b", "c", "d"}[:2+r.IntN(3)], []string{"bad", "bad2"}[:1+r.IntN(2)]
			late := r.IntN(2) == 1
			t.Logf("%d healthy nodes and %d bad ones; these join late: %v", len(healthy), len(bad), late)
			p := newSandbox(t)
			p.set("HOW=" + way.how)
			run := func(nodes []string) {
				for _, node := range nodes {
					p.run("--np=2:6", "--job-id=x", "--node="+node, "--last-call=500ms", "--hang-timeout=3s",
						"sh", "-c", badWorker)
				}
			}
			if !late {
				run(bad)
			}
			run(healthy)
			if late {
				p.nodeState("a", "running") // there is a job
				p.committed("x", 1)
				run(bad)
			}
			for _, node := range bad {
				p.isLeftOut(node)
			}
			p.trainsWithout("bad", len(healthy))
			// failures of two different nodes speak against the checkpoint
			if all := kinds(p.events("x"), "checkpoint_distrusted"); len(all) > 0 && len(bad) < 2 {
				t.Errorf("a checkpoint was distrusted: %s", all[0].Text)
			}
			if out := p.must("status", "x", "-o", "json"); !strings.Contains(out, `"restarts":{"used":0`) {
				t.Errorf("restarts are used: %s", out)
			}
			if n := len(kinds(p.events("x"), "worker_failed")); n > way.most*len(bad) {
				t.Errorf("%d generations were lost, and %d are promised", n, way.most*len(bad))
			}
			p.must("stop", "x")
		})
	}
}

// isLeftOut waits until a node of job x is in quarantine, which takes longer where its workers train for a
// while before each failure.
func (p *sandbox) isLeftOut(node string) {
	p.t.Helper()
	within(p.t, 4*limit, node+" is left out", func() error {
		out, err := p.try("nodes", "x", "-o", "json")
		if err == nil && !strings.Contains(out, fmt.Sprintf(`"node":%q,"state":"quarantined"`, node)) {
			err = fmt.Errorf("%s", out)
		}
		return err
	})
}

// Where every node is bad the job fails, names the cause, and leaves no node out for ever.
func TestAllNodesAreBad(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	p.set("HOW=at-once")
	var all []*proc
	for _, node := range []string{"bad", "bad2", "bad3"} {
		all = append(all, p.run("--np=2:3", "--job-id=x", "--node="+node, "--last-call=500ms", "sh", "-c",
			badWorker))
	}
	within(t, 4*limit, "the job fails", func() error {
		st, err := p.status("x")
		if err == nil && st.State != "failed" {
			err = fmt.Errorf("%s", st.State)
		}
		return err
	})
	for _, x := range all {
		p.ends(x, 1)
		p.says(x, "restarts used (3 of 3)")
		p.says(x, "exit code 1")
	}
}

// A node that stands still for 1.3 s twelve times in 22 s costs the healthy ones at most three restarts.
// Without COUNT it does so four times only.
func TestOneNodeStandsStillAgainAndAgain(t *testing.T) {
	t.Parallel()
	times := 4
	if os.Getenv("COUNT") != "" {
		times = 12
	}
	for range soak(t) {
		p := newSandbox(t)
		var agent *proc
		for _, node := range []string{"a", "b", "c"} {
			agent = p.run("--np=2:3", "--job-id=x", "--node="+node, "--last-call=100ms", "train",
				"--steps=1000000", "--step-sleep=10ms", "--save-every=300ms")
		}
		began := p.running("x", 1, 3).Generation
		for range times {
			p.sends(agent, syscall.SIGSTOP)
			time.Sleep(1300 * time.Millisecond)
			p.sends(agent, syscall.SIGCONT)
			time.Sleep(530 * time.Millisecond)
		}
		st := p.reaches("x", "it trains", func(s status) error {
			if s.State != "running" {
				return fmt.Errorf("%s", s.State)
			}
			return nil
		})
		all := p.events("x")
		lost, worlds := len(kinds(all, "node_lost")), len(kinds(all, "world_running"))
		t.Logf("generation %d to %d: lost %d times, %d worlds ran", began, st.Generation, lost, worlds)
		if worlds-1 > 3 {
			t.Errorf("the healthy nodes were restarted %d times, and three are promised", worlds-1)
		}
		p.must("stop", "x")
	}
}

// sends sends a signal to an agent.
func (p *sandbox) sends(x *proc, s syscall.Signal) {
	p.t.Helper()
	if err := x.kill(s); err != nil {
		p.t.Fatal(err)
	}
}
