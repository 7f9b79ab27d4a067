package hang

import (
	"context"
	"encoding/json"
	"time"

	"github.com/elasticd/elastic/internal/diagnosis"
	"github.com/elasticd/elastic/pkg/history"
)

// PacePath is where rank 0's node asks for the newest line of progress of each worker of a node.
const PacePath = "/hang/pace"

// Slowness finds out now and then, while steps come, whether a rank makes the others wait. The zero
// value is ready for use.
type Slowness struct {
	passed time.Duration
	newest *history.Slow
	told   map[int]bool // by rank
}

// The time between two looks. Many nodes take longer, so that one is asked in a second.
const (
	paceEvery   = 30 * time.Second
	paceOfANode = time.Second
)

// After takes in that steps came for another d, and looks if it is time. It returns the rank that the
// others wait for in each step; nil: there is none, or it cannot be known. first reports whether it
// was not returned before. w is nil where the workers cannot be asked.
func (s *Slowness) After(ctx context.Context, w *Watch, d time.Duration) (slow *history.Slow, first bool) {
	s.passed += d
	if w == nil || s.passed < max(paceEvery, paceOfANode*time.Duration(len(w.Members))) {
		return s.newest, false
	}
	s.passed, s.newest = 0, w.slow(ctx)
	if s.newest == nil || s.told[s.newest.Rank] {
		return s.newest, false
	}
	if s.told == nil {
		s.told = map[int]bool{}
	}
	s.told[s.newest.Rank] = true
	return s.newest, true
}

// slow asks all ranks how long they take for a step.
func (w *Watch) slow(ctx context.Context) *history.Slow {
	mine := w.Workers.Progress()
	if len(mine) == 0 || diagnosis.ParsePace(mine[0]) == (diagnosis.Pace{}) {
		return nil // the script does not measure it
	}
	ctx, cancel := context.WithTimeout(ctx, silenceLimit)
	defer cancel()
	ranks := make([]diagnosis.Pace, w.size())
	take := func(seat int, lines []string) {
		for i, line := range lines[:min(len(lines), w.Slots)] {
			ranks[seat*w.Slots+i] = diagnosis.ParsePace(line)
		}
	}
	take(0, mine)
	w.ask(ctx, PacePath, func(seat int, body *json.Decoder) {
		var lines []string
		if body != nil && body.Decode(&lines) == nil {
			take(seat, lines) // no lock: each node is asked once
		}
	})
	found, ok := diagnosis.FindSlow(ranks, w.Slots)
	if !ok {
		return nil
	}
	return &history.Slow{Rank: found.Rank, Node: w.nodeOf(found.Rank), Whole: found.Node,
		Own: found.Own, Usual: found.Usual, Costs: found.Costs}
}
