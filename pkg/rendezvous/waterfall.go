package rendezvous

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/elasticd/elastic/pkg/history"
)

// Timing is where the time of one start of a World went: milliseconds from the first sign that
// there had to be another World. All of it was seen by one agent, By, on its own monotonic clock:
// moments of two hosts are never compared. It is for people; nothing is decided by it. null: it did
// not happen, or By did not see it.
type Timing struct {
	By   string `json:"by"`
	Sign string `json:"sign"`
	// the plan first said that the old World has to end, or that there can be one
	Decided *int64 `json:"decided_ms"`
	// there were too few nodes in between: the last that was needed is here
	Enough   *int64 `json:"enough_ms"`
	Proposed *int64 `json:"proposed_ms"` // the World was seen written
	Stopped  *int64 `json:"stopped_ms"`  // nothing of older workers is left on any node
	Barrier  *int64 `json:"barrier_ms"`  // all are Ready
	Last     string `json:"last"`        // the node whose Ready came last
	Started  *int64 `json:"started_ms"`  // By's own workers run
	// FromMemory: they waited for the World, and the state of training comes from memory.
	FromMemory bool `json:"from_memory,omitempty"`
}

// What a first sign can be, beside membership.Sign. A worker that failed and an agent's own
// suspicion are seen before they are written.
const (
	SignFailure = "worker-failed"
	SignLeft    = "left"
	SignWish    = "wish"
	SignNodes   = "nodes"  // enough for a World, or more than it has
	SignUnseen  = "unseen" // By came, or began to plan, after it
)

// Forming is from Propose to the full barrier.
func (f Timing) Forming() (ms int64) {
	if f.Proposed != nil && f.Barrier != nil {
		ms = *f.Barrier - *f.Proposed
	}
	return ms
}

// String is the sentence of the event and of `elastic status`.
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

// TimingOf is where the time of a start went, if the event tells it; else nil.
func TimingOf(e history.Event) *Timing {
	if e.Kind != history.Started {
		return nil
	}
	b, err := json.Marshal(e.Fields["waterfall"])
	t := new(Timing)
	if err != nil || json.Unmarshal(b, t) != nil {
		return nil
	}
	return t
}
