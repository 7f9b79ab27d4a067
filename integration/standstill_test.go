package integration

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// standstills are the ways in which one rank keeps the others waiting, and what the verdict says of
// each.
var standstills = []struct{ how, says string }{
	{"lock", "lock ("}, {"spin", "spin ("}, {"stop", "is stopped"}, {"kernel", "the kernel holds it"},
	{"peer", "peer ("}, {"load", "load ("}, {"branch", "barrier"}, {"skip", "broadcast"},
	{"other", "all_gather"}, {"slow", "slow ("},
}

// Ranks train without --hang-timeout, and one of them stands still in one of ten ways. The verdict
// names it, in the event and in `status`, and no worker is touched. COUNT is the number of
// standstills (200 of all ten kinds are named), SEED chooses worlds, ranks and steps, and TORCH is a
// python with torch 2.
func TestARankThatStandsStillIsNamed(t *testing.T) {
	script, err := filepath.Abs(filepath.Join("testdata", "standstill.py"))
	if err != nil {
		t.Fatal(err)
	}
	python := cmp.Or(os.Getenv("TORCH"), "/usr/bin/python3")
	seed, _ := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	count := 4
	if n := soak(t); n > 1 {
		count = n
	}
	for i := range count {
		x := standstills[i%len(standstills)]
		dice := rand.New(rand.NewPCG(seed, uint64(i)))
		nodes := 1 + dice.IntN(2)
		slots := 3 + dice.IntN(4)/nodes
		bad := dice.IntN(nodes * slots)
		t.Run(fmt.Sprintf("%s-%d", x.how, i), func(t *testing.T) {
			p := newSandbox(t)
			p.set(fmt.Sprintf("BAD=%d", bad), "HOW="+x.how, fmt.Sprintf("AT=%d", 60+dice.IntN(40)),
				"OMP_NUM_THREADS=1")
			for n := range nodes {
				p.run(fmt.Sprintf("--node=n%d", n), fmt.Sprintf("--np=%d", nodes),
					fmt.Sprintf("--nproc-per-node=%d", slots), "--job-id=x", "--hang-look=2s",
					"--warm=off", "--console=none", "--max-restarts=0", python, script)
			}
			p.running("x", 1, nodes*slots)
			var text string
			within(t, 4*limit, "the ranks are looked at", func() error {
				all := kinds(p.events("x"), "stalled")
				if len(all) == 0 {
					return fmt.Errorf("no verdict: %+v", p.events("x"))
				}
				text = all[len(all)-1].Text
				return nil
			})
			want := fmt.Sprintf("rank %d on n%d differs", bad, bad/slots)
			if !strings.Contains(text, want) || !strings.Contains(text, x.says) {
				t.Errorf("want %s, %s:\n%s", want, x.says, text)
			}
			if failures := kinds(p.events("x"), "worker_failed"); len(failures) != 0 {
				t.Errorf("a look ended workers: %+v", failures)
			}
			if status := p.must("status", "x"); !strings.Contains(status, want) {
				t.Errorf("status:\n%s", status)
			}
		})
	}
}
