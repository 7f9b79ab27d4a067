package integration

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// script writes a training script that imports the helper as a user's does, and returns its path.
func (p *sandbox) script(body string) string {
	p.t.Helper()
	path := filepath.Join(p.dir, "train.py")
	if err := os.WriteFile(path, []byte("import elastic, time, sys\n"+body), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

func TestALossThatIsNotANumberFailsTheJob(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	x := p.run("--job-id=x", "--on-nan=fail", "python3", p.script(`
state = elastic.State(save_every=None)
while True:
    time.sleep(0.05)
    state.commit(loss=float("inf") if state.step > 10 else 0.5)
`))
	p.ends(x, 93)
	st, err := p.status("x")
	if err != nil {
		t.Fatal(err)
	}
	if st.State != "failed" || st.WhyCode != "loss-nan" {
		t.Errorf("status: %s", st)
	}
}

// rates are the learning rates that `train` prints, in order, each once.
func rates(x *proc) (all []float64) {
	for _, m := range regexp.MustCompile(` lr ([0-9.]+)`).FindAllStringSubmatch(x.stdout(), -1) {
		if v, err := strconv.ParseFloat(m[1], 64); err == nil && (len(all) == 0 || all[len(all)-1] != v) {
			all = append(all, v)
		}
	}
	return all
}

// The rate follows the world from the base, never from the last rate, and climbs over the warm-up.
func TestTheRateFollowsTheWorld(t *testing.T) {
	t.Parallel()
	for policy, two := range map[string]float64{"linear": .2, "sqrt": .1 * math.Sqrt2} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			followTheRate(t, policy, two)
		})
	}
}

// followTheRate scales a job between one worker, with a rate of 0.1, and two.
func followTheRate(t *testing.T, policy string, two float64) {
	p := newSandbox(t)
	node := func(name string) *proc {
		return p.run("--node="+name, "--np=1", "--job-id=x", "--batch-size=32", "--lr=0.1", "--base-np=1",
			"--scaling="+policy, "--warmup-samples=4000", "--log-dir=log-"+name,
			"train", "--epochs=1000", "--pace=600", "--save-every=200ms")
	}
	same := func(a, b float64) bool { return math.Abs(a-b) < 1e-4 } // the log has four digits
	a := node("a")
	p.running("x", 1, 1)
	p.committed("x", 1)
	node("b")
	p.must("scale", "x", "--np=2")
	until(t, "the rate of two workers is reached", func() error {
		if all := rates(a); !same(all[len(all)-1], two) {
			return fmt.Errorf("rates %v", all)
		}
		return nil
	})
	p.must("scale", "x", "--np=1")
	p.must("scale", "x", "--np=2")
	all := rates(a)
	climbed := 0
	for _, v := range all {
		if v < .1-1e-4 || v > two+1e-4 {
			t.Errorf("rates %v: beyond those of one and two workers", all)
		}
		if !same(v, .1) && !same(v, two) {
			climbed++
		}
	}
	if climbed == 0 {
		t.Errorf("rates %v: no step between", all)
	}
	want := []float64{.1, two, .1, two}
	var planned []float64
	for _, e := range kinds(p.events("x"), "world_proposed") {
		if e.Plan != nil {
			planned = append(planned, e.Plan.LR)
		}
	}
	if !slices.EqualFunc(planned, want, same) {
		t.Errorf("the history has rates %v, want %v", planned, want)
	}
	p.must("stop", "x")
}
