package rendezvous

import (
	"fmt"
	"strings"
)

// Timing is where the time of one start of a World went, in milliseconds from the first sign that
// another World was needed. One agent, By, measured all of it on its own monotonic clock, so that
// no times of two hosts are compared. It is only shown; no decision depends on it. null: it did not
// happen, or By did not see it.
type Timing struct {
	By   string `json:"by"`
	Sign string `json:"sign"`
	// the plan first required that the old World ends, or allowed a new one
	Decided *int64 `json:"decided_ms"`
	// if there were too few nodes in between: the last node that was needed registered
	Enough   *int64 `json:"enough_ms"`
	Proposed *int64 `json:"proposed_ms"` // By read the forming World
	Stopped  *int64 `json:"stopped_ms"`  // no older worker is left on any node
	Barrier  *int64 `json:"barrier_ms"`  // all are Ready
	Last     string `json:"last"`        // the node whose Ready came last
	Started  *int64 `json:"started_ms"`  // By's own workers run
	// FromMemory: By's workers waited for the World, and the state of training comes from memory.
	FromMemory bool `json:"from_memory,omitempty"`
}

// First signs that are no membership.Sign. By sees a failed worker, and its own suspicion, before
// they are in the store.
const (
	SignFailure = "worker-failed"
	SignLeft    = "left"
	SignWish    = "wish"
	SignNodes   = "nodes"  // there are enough nodes for a World, or more than the World has
	SignUnseen  = "unseen" // By joined, or began to plan, after the sign
)

// Forming is the time from Propose to the full barrier.
func (f Timing) Forming() (ms int64) {
	if f.Proposed != nil && f.Barrier != nil {
		ms = *f.Barrier - *f.Proposed
	}
	return ms
}

// String returns the sentence of the event and of `elastic status`.
func (f Timing) String() string {
	var parts []string
	add := func(what string, ms *int64) {
		if ms != nil {
			parts = append(parts, fmt.Sprintf("%s %.3f", what, float64(*ms)/1000))
		}
	}
	add("decided", f.Decided)
	add("enough nodes", f.Enough)
	add("proposed", f.Proposed)
	add("workers stopped", f.Stopped)
	add("barrier full", f.Barrier)
	if f.Last != "" {
		parts = append(parts, "last "+f.Last)
	}
	add("started", f.Started)
	return fmt.Sprintf("seconds since the first sign (%s), on %s: %s",
		f.Sign, f.By, strings.Join(parts, ", "))
}
