package history

import "fmt"

// Slow is a rank for which the others wait in each step. Training goes on.
type Slow struct {
	Rank  int     `json:"rank"`
	Node  string  `json:"node"`
	Whole bool    `json:"whole_node,omitempty"` // all ranks of the node are slow
	Own   float64 `json:"own"`                  // seconds of a step until it waits for the others
	Usual float64 `json:"usual"`                // the same, of the rank in the middle
	Costs float64 `json:"costs"`                // share of the time for which that rank waits for it
}

// String is one sentence.
func (s *Slow) String() string {
	who := fmt.Sprintf("rank %d on %s is slow: it computes", s.Rank, s.Node)
	if s.Whole {
		who = fmt.Sprintf("node %s is slow: its rank %d computes", s.Node, s.Rank)
	}
	return fmt.Sprintf("%s for %.3g ms of each step, others for %.3g ms; they wait %.0f %% of the time",
		who, 1000*s.Own, 1000*s.Usual, 100*s.Costs)
}
