package integration

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/integration/outside"
)

// standstills are the ways in which one rank keeps the others waiting, and what the verdict says of
// each: the collective where torch has a flight recorder, else the call.
var standstills = []struct{ how, says string }{
	{"lock", `lock \(`}, {"stop", "is stopped"}, {"kernel", "the kernel holds it"}, {"load", `load \(`},
	{"skip", `broadcast|skip \(`}, {"spin", `spin \(`}, {"peer", `peer \(`}, {"branch", `barrier|branch \(`},
	{"other", `all_gather|other \(`}, {"slow", `slow \(`},
}

// looked is the longest time from the last step to the verdict: the limit of 2 s, and 15 s.
const looked = 17 * time.Second

// sinceStep returns the time from the last step of a job to an event.
func (p *sandbox) sinceStep(job string, e eventLine) time.Duration {
	p.t.Helper()
	progress, _ := p.object("status", job)["progress"].(map[string]any)
	step, err1 := time.Parse(time.RFC3339, fmt.Sprint(progress["time"]))
	at, err2 := time.Parse(time.RFC3339, e.Time)
	if err1 != nil || err2 != nil {
		p.t.Fatal(err1, err2)
	}
	return at.Sub(step)
}

// Ranks train without --hang-timeout, and one of them stands still in one of ten ways, five without COUNT.
// The verdict names it, in the event and in `status`, and no worker is touched. COUNT is the number of
// standstills (200 of all ten kinds are named), SEED chooses worlds, ranks and steps, and TORCH is a
// python with torch 2.
func TestARankThatStandsStillIsNamed(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs(filepath.Join("testdata", "standstill.py"))
	if err != nil {
		t.Fatal(err)
	}
	python := cmp.Or(os.Getenv("TORCH"), "/usr/bin/python3")
	seed, _ := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	count := len(standstills) / 2
	if n := soak(t); n > 1 {
		count = n
	}
	for i := range count {
		x := standstills[i%len(standstills)]
		dice := rand.New(rand.NewPCG(seed, uint64(i)))
		nodes := 1 + dice.IntN(2)
		slots := 3 + dice.IntN(6/nodes/nodes)
		if soak(t) == 1 {
			nodes, slots = 1, 3
		}
		bad := dice.IntN(nodes * slots)
		t.Run(fmt.Sprintf("%s-%d", x.how, i), func(t *testing.T) {
			t.Parallel()
			p := newSandbox(t)
			// A hundred steps take five seconds. The usual time of a step is known after four.
			p.set(fmt.Sprintf("BAD=%d", bad), "HOW="+x.how, fmt.Sprintf("AT=%d", 100+dice.IntN(40)),
				"OMP_NUM_THREADS=1")
			for n := range nodes {
				p.run(fmt.Sprintf("--node=n%d", n), fmt.Sprintf("--np=%d", nodes),
					fmt.Sprintf("--nproc-per-node=%d", slots), "--job-id=x", "--hang-look=2s",
					"--warm=off", "--console=none", "--max-restarts=0", python, script)
			}
			outside.Poll{What: "the ranks run", Every: time.Second, Limit: 4 * limit}.Until(t, func() error {
				st, err := p.status("x")
				if err == nil && st.State != "running" {
					err = fmt.Errorf("%s", st)
				}
				return err
			})
			var found eventLine
			// A machine that is busy may not answer the first look; then no rank stands out in it.
			outside.Poll{What: "a rank is named", Every: time.Second, Limit: 4 * limit}.Until(t, func() error {
				all := kinds(p.events("x"), "stalled")
				i := slices.IndexFunc(all, func(e eventLine) bool {
					return strings.Contains(e.Text, " differs")
				})
				if i < 0 {
					return fmt.Errorf("no rank is named: %+v", all)
				}
				found = all[i]
				return nil
			})
			text := found.Text
			want := fmt.Sprintf("rank %d on n%d differs", bad, bad/slots)
			if !strings.Contains(text, want) || !regexp.MustCompile(x.says).MatchString(text) {
				t.Errorf("want %s, %s:\n%s", want, x.says, text)
			}
			if failures := kinds(p.events("x"), "worker_failed"); len(failures) != 0 {
				t.Errorf("a look ended workers: %+v", failures)
			}
			if status := p.must("status", "x"); !strings.Contains(status, want) {
				t.Errorf("status:\n%s", status)
			}
			after := p.sinceStep("x", found)
			if t.Logf("%s, %d ranks, after %s: %s", x.how, nodes*slots, after, text); after > looked {
				t.Errorf("found %s after the last step", after)
			}
		})
	}
}
