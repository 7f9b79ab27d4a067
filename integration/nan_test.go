package integration

import (
	"errors"
	"strings"
	"testing"
)

// One rank has a loss that is not a number, and all others a step later, as where gradients are averaged.
const oneBad = `
import os
def reports(step, loss):
    with open(os.environ["ELASTIC_PROGRESS_FILE"], "a") as f:
        f.write('{"step": %d, "loss": %s, "samples": "?"}\n' % (step, loss))

rank, bad = os.environ["RANK"], os.path.join(os.environ["HOME"], "bad")
if os.environ["ELASTIC_GENERATION"] == "1":
    reports(4, "0.5")
    if rank == "3":
        reports(5, "NaN")
        open(bad, "w").close()
    while not os.path.exists(bad):
        time.sleep(0.01)
    reports(6, "NaN")
    reports(7, "0.5")
while not os.path.exists(os.path.join(os.environ["HOME"], "end")):
    time.sleep(0.01)
`

// A loss that is not a number is seen on any rank of any node, and reported once, with the rank and the step
// that had it first.
func TestLossOfAnyRankIsSeen(t *testing.T) {
	t.Parallel()
	for rule, fails := range map[string]bool{"ignore": false, "fail": true} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			p := newSandbox(t)
			var all []*proc
			for _, node := range []string{"a", "b"} {
				all = append(all, p.run("--job-id=x", "--np=2", "--nproc-per-node=2", "--node="+node, "--on-nan="+rule,
					"--batch-size=8", "python3", p.script(oneBad)))
			}
			p.running("x", 1, 4)
			var seen []eventLine
			until(t, "the loss is seen", func() error {
				if seen = kinds(p.events("x"), "loss_nan"); len(seen) == 0 {
					return errors.New("no event says so")
				}
				return nil
			})
			if fails {
				for _, x := range all {
					p.ends(x, 93)
				}
			}
			const want = "is not a number at step 5"
			if len(seen) != 1 || !strings.Contains(seen[0].Text, "rank 3 on") ||
				!strings.Contains(seen[0].Text, want) {
				t.Errorf("the events are %v", seen)
			}
			if fails {
				return
			}
			if status := p.must("status", "x"); !strings.Contains(status, "step 7") {
				t.Errorf("a figure that is not readable hides the others:\n%s", status)
			}
			p.touch("../end")
			for _, x := range all {
				p.ends(x, 0)
			}
		})
	}
}
