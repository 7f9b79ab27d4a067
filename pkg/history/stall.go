package history

import (
	"fmt"
	"time"
)

// Stall is the state of a world that makes no step. The next step withdraws it.
type Stall struct {
	Quiet   float64  `json:"quiet"` // seconds without a step, when the ranks were looked at
	Known   bool     `json:"known"` // one rank differs from the others
	Rank    int      `json:"rank"`
	Node    string   `json:"node"`
	Reason  string   `json:"reason"`
	Stack   string   `json:"stack,omitempty"`   // of the main thread of that rank
	Busy    bool     `json:"busy,omitempty"`    // that rank uses a processor: it may do long work
	Without []string `json:"without,omitempty"` // nodes that showed nothing of their ranks
}

// Same reports whether a later look found the same.
func (s *Stall) Same(later *Stall) bool {
	return s.Known == later.Known &&
		(!s.Known || s.Rank == later.Rank && s.Busy == later.Busy)
}

// String is one sentence.
func (s *Stall) String() string {
	quiet := time.Duration(s.Quiet * float64(time.Second)).Round(time.Second)
	return fmt.Sprintf("no step for %s: %s", quiet, s.Verdict())
}

// Verdict names the rank that differs, if one does.
func (s *Stall) Verdict() string {
	switch {
	case s.Known && s.Busy:
		return fmt.Sprintf("rank %d on %s differs and is at work: %s", s.Rank, s.Node, s.Reason)
	case s.Known:
		return fmt.Sprintf("rank %d on %s differs: %s", s.Rank, s.Node, s.Reason)
	}
	return s.Reason
}
