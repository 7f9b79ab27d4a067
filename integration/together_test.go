package integration

import (
	"fmt"
	"os"
	"syscall"
	"testing"
)

// counting is a trainer that saves only when it is signalled: rank 0 writes the step that it has reached.
const counting = `
import json, os, signal, sys, time
d, rank, resume = os.environ["ELASTIC_CHECKPOINT_DIR"], int(os.environ["RANK"]), os.environ["ELASTIC_RESUME_FROM"]
step = int(open(resume).read()) if resume else 0
print("began", step, flush=True)
def end(*_):
    if rank == 0:
        with open(f"{d}/step.tmp", "w") as f:
            f.write(str(step + 1))
        os.replace(f"{d}/step.tmp", f"{d}/step.raw")
    sys.exit(143)
signal.signal(signal.SIGTERM, end)
open(f"up.{os.environ['ELASTIC_NODE']}.{os.environ['ELASTIC_GENERATION']}", "w").close()
time.sleep(1000)
`

// A scheduler signals agents and workers of all nodes in one moment. What the workers save then is committed: the next
// generation goes on from it. COUNT sets how often.
func TestSignalledTogether(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	rounds := max(3, soak(t))
	for round := range rounds {
		var nodes []*proc
		for _, name := range []string{"a", "b"} {
			nodes = append(nodes, p.run("--np=2", "--job-id=x", "--node="+name, "--console=all", "/usr/bin/python3", "-c", counting))
		}
		g := p.running("x", round+1, 2).Generation
		for _, name := range []string{"a", "b"} {
			until(t, "its worker can be signalled", func() error {
				_, err := os.Stat(p.path(fmt.Sprintf("up.%s.%d", name, g)))
				return err
			})
		}
		all := p.left()
		for i := range all {
			if round%2 == 1 {
				i = len(all) - 1 - i
			}
			all[i].signal(syscall.SIGTERM)
		}
		for _, x := range nodes {
			p.ends(x, 75)
		}
		for _, x := range nodes {
			if at := began.FindStringSubmatch(x.stdout()); len(at) == 0 || at[1] != fmt.Sprint(round) {
				t.Fatalf("round %d: a worker began with %q", round, at)
			}
		}
	}
}
