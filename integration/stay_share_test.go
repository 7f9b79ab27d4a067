//go:build torch

package integration

import (
	"fmt"
	"strconv"
	"syscall"
	"testing"
)

// receives waits until a node gets the state of another rank.
func (s *stayers) receives(node string) {
	s.t.Helper()
	until(s.t, node+" receives a state", func() error {
		all, _ := s.object("status", "x")["doing"].([]any)
		for _, one := range all {
			if d, _ := one.(map[string]any); d["node"] == node && d["what"] == "receiving" {
				return nil
			}
		}
		return fmt.Errorf("doing is %v", all)
	})
}

// A state of 1 GiB is sent to a node that joins. During the transfer the sender is killed, or the
// receiver, or all nodes that have the state, or a node is frozen, or the world changes twice. The
// others train on. COUNT is the number of these faults, in turn, at least five. TORCH is the python
// with torch.
func TestANodeIsLostWhileItsStateIsGiven(t *testing.T) {
	kinds := []string{"giver", "taker", "survivors", "worker stands still", "two changes"}
	for round := range max(len(kinds), soak(t)) {
		kind := kinds[round%len(kinds)]
		t.Run(fmt.Sprintf("%d %s", round, kind), func(t *testing.T) {
			s := newStayers(t)
			s.set("EXTRA=" + strconv.Itoa(1<<30))
			s.up("a")
			s.up("b")
			g := s.trains(0, "a", "b")
			s.up("c")
			s.receives("c")
			switch kind {
			case "giver":
				s.lose("a")
				s.trains(g+1, "b", "c")
			case "taker":
				s.lose("c")
				s.trains(g+1, "a", "b")
			case "survivors":
				s.lose("a")
				s.lose("b")
				s.up("d")
				s.trains(g+1, "c", "d")
			case "two changes":
				s.up("d")
				s.lose("b")
				s.trains(g+1, "a", "c", "d") // gloo may lose a write of a, which is started again then
			default:
				for _, w := range s.workersOf("b", s.script) {
					w.signal(syscall.SIGSTOP)
				}
				s.lose("a")
				s.trains(g+1, "b", "c") // the worker of b does not answer, and is started again
			}
		})
	}
}
