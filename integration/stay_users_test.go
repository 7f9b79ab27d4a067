//go:build torch

package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// Scripts like those of users end with the result of an undisturbed run, although nodes are killed
// and others join. They have two optimizers, schedules, an average of the model, and accumulated
// and clipped gradients. Each also has one of these: a loader with processes, evaluation with
// barriers, handlers of signals. WAYS names other variants of testdata/stay_users.py. TORCH is the
// python with torch.
func TestScriptsOfUsersStay(t *testing.T) {
	t.Parallel()
	ways := []string{"plain", "loader", "evaluates", "signals"}
	if some := os.Getenv("WAYS"); some != "" {
		ways = strings.Split(some, ",")
	}
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			s := newStayers(t)
			s.script = strings.TrimSuffix(s.script, "stay.py") + "stay_users.py"
			s.arguments = []string{way}
			r := rand.New(rand.NewPCG(1, 1))
			names := []string{"a", "b", "c"}
			for _, n := range names {
				s.up(n)
			}
			g := s.trains(0, names...)
			for round := range max(2, soak(t)) {
				at := r.IntN(3)
				s.goesOn(r.IntN(100))
				others := []string{names[(at+1)%3], names[(at+2)%3]}
				before := []int{s.training(others[0]).pid, s.training(others[1]).pid}
				g = s.fault(g, names[at], false, others...)
				delete(s.nodes, names[at])
				names[at] = fmt.Sprintf("n%d", round)
				s.up(names[at])
				g = s.trains(g, names...)
				for i, n := range others {
					// All ranks may be interrupted between the step and commit(). Then they begin
					// anew.
					if now := s.training(n).pid; now != before[i] && way != "between" {
						t.Errorf("round %d: the worker of %s was process %d, and is %d", round, n, before[i], now)
					}
				}
			}
			s.finish()
			s.took.log(t)
		})
	}
}
