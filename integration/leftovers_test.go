package integration

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// looksForItself is a script whose ranks find their checkpoint themselves: each takes the file of
// the highest step in its own checkpoint directory. Rank 0 of the first generation saves the steps
// of its arguments, and is killed in the middle of step 50, which it begins when the last one of them is
// committed.
const looksForItself = `
import os, re, sys, time
d, g, rank = (os.environ[k] for k in ("ELASTIC_CHECKPOINT_DIR", "ELASTIC_GENERATION", "ELASTIC_RANK"))
steps = [int(n) for name in os.listdir(d) for n in re.findall(r"^model_step(\d+).raw$", name)]
print(f"generation {g} rank {rank} begins at {max(steps, default=0)}", flush=True)
if g == "1" and rank == "0":
    for step in [int(a) for a in sys.argv[1:]] + [50]:
        with open(f"{d}/model_step{step}.raw", "wb") as f:
            f.write(b"\0" * 5000)
            f.flush()
            if step == 50:
                time.sleep(0.5)
                os.kill(os.getpid(), 9)
        while step == int(sys.argv[-1]) and not os.path.exists("committed"):
            time.sleep(0.1)
time.sleep(1000)
`

var leftBegins = regexp.MustCompile(`(?m)^generation 2 rank (\d+) begins at (\d+)$`)

// A save that was never committed is in the directory of rank 0 when its generation ends. All ranks
// of the next generation still begin at the same step: from scratch, or from the newest commit.
func TestLeftoversOfADeadGeneration(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		saved []string
		begin string
	}{"from scratch": {nil, "0"}, "from an older commit": {[]string{"5", "10"}, "10"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSandbox(t)
			p.daemons(1)
			if err := os.WriteFile(p.path("train.py"), []byte(looksForItself), 0o600); err != nil {
				t.Fatal(err)
			}
			node := func(name string) *proc {
				return p.run(append([]string{"--node=" + name, "--np=2", "--job_id=x", "--log-dir=log-" +
					name, "/usr/bin/python3", p.path("train.py")}, c.saved...)...)
			}
			a, b := node("a"), node("b")
			p.running("x", 1, 2)
			if c.saved != nil {
				p.committed("x", 1) // a file with a step counts from the second one on
			}
			if err := os.WriteFile(p.path("committed"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			var got []string
			until(t, "both ranks of generation 2 say where they begin", func() error {
				got = nil
				for _, m := range leftBegins.FindAllStringSubmatch(p.logs("log-*"), -1) {
					got = append(got, m[2])
				}
				if len(got) < 2 {
					return fmt.Errorf("%q do", got)
				}
				return nil
			})
			if got[0] != c.begin || got[1] != c.begin {
				t.Errorf("the ranks begin at %v, want %s", got, c.begin)
			}
			p.must("stop", "x")
			p.ends(a, 93)
			p.ends(b, 93)
		})
	}
}

// heldBy waits until the newest checkpoint is held by these nodes.
func (p *sandbox) heldBy(job string, nodes ...string) {
	p.t.Helper()
	want := strings.Join(nodes, ", ")
	until(p.t, "the newest checkpoint is held by "+want, func() error {
		out, err := p.try("ckpt", "ls", job)
		if err == nil && !strings.HasSuffix(lastLine(out), want) {
			err = fmt.Errorf("it is not:\n%s", out)
		}
		return err
	})
}
