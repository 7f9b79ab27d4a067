package integration

import (
	"strings"
	"testing"
)

// A training that would use other samples than before, or different ones on each rank, is refused
// with one sentence before its first step.
func TestOtherSamplesAreRefused(t *testing.T) {
	t.Parallel()
	needsTorch(t)
	const training = `
import os, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
sampler = elastic.Sampler(int(os.environ["N"].split(",")[rank]), seed=int(os.environ["SEED"]))
state = elastic.State(sampler=sampler, save_every=None)
state.load()
print("a step is made", flush=True)
state.commit()
state.save()
while not os.path.exists("committed"):
    time.sleep(0.01)
sys.exit(7)
`
	run := func(p *sandbox, variables string) *proc {
		line := append([]string{"--job-id=x", "--nproc-per-node=2", "--max-restarts=0", "--console=all",
			"env"},
			strings.Fields(variables)...)
		return p.run(append(line, debianPython, p.script(training))...)
	}
	for variables, c := range map[string]struct{ first, says string }{
		"N=100,99 SEED=0":  {"", "rank 1 has n=99, rank 0 has n=100"},
		"N=101,101 SEED=0": {"N=100,100 SEED=0", "the checkpoint is of a sampler with n=100, seed=0"},
	} {
		t.Run(variables, func(t *testing.T) {
			t.Parallel()
			p := newSandbox(t)
			if c.first != "" {
				x := run(p, c.first)
				p.committedStep("x", 1)
				p.touch("committed")
				p.ends(x, 7)
			}
			x := run(p, variables)
			p.ends(x, 1)
			if !strings.Contains(x.stderr(), c.says) {
				t.Errorf("it says %q", tail(x.stderr()))
			}
			if strings.Contains(x.stdout(), "a step is made") {
				t.Errorf("a step was made: %s", x.stdout())
			}
		})
	}
}
