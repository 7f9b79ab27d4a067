package progress

// This file watches the losses that workers report, and reports the first one of a generation that
// is not a number.

import (
	"context"
	"path/filepath"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
)

const (
	// every is how often the reports of the workers are read.
	every = 2 * time.Second
	// settles is how long a node waits for others that saw an earlier loss that is not a number. All nodes
	// look at the same time, and the other ranks have such a loss one step after the first.
	settles = every * 3 / 2
)

// LossWatch watches the workers of one node in one generation.
type LossWatch struct {
	Requests txn.Requests
	World    rendezvous.World
	Rank     int     // of this node
	Tails    []*Tail // by local rank, opened before the workers make a step of the generation
	Acts     bool    // the job has a rule for a loss that is not a number
}

// FileOf is the progress file in the directory of a worker.
func FileOf(workerDir string) string { return filepath.Join(workerDir, "progress.jsonl") }

// Run ends with the workers or the generation, or when a loss that is not a number was reported.
func (n *LossWatch) Run(ctx context.Context, done <-chan struct{}) {
	tick := time.NewTimer(membership.UntilTick(time.Now(), every))
	defer tick.Stop()
	var mine *rendezvous.Failure
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		case <-ctx.Done():
			return
		case <-tick.C:
			tick.Reset(membership.UntilTick(time.Now(), every))
		}
		if mine == nil {
			mine = n.look()
			if mine != nil && !ended && len(n.World.Members) > 1 && n.isEarliest(ctx, mine) {
				tick.Reset(settles)
				continue
			}
		}
		if mine != nil && (!n.isEarliest(ctx, mine) || n.report(ctx, mine) == nil) {
			return
		}
	}
}

// look returns the first loss of a worker of this node that is not a number; nil: there is none.
func (n *LossWatch) look() (first *rendezvous.Failure) {
	me := n.World.Members[n.Rank]
	for local, tail := range n.Tails {
		tail.Read()
		step, seen := tail.LossNaN()
		f := rendezvous.Failure{Node: me.Node, Incarnation: me.Incarnation, LocalRank: local,
			Rank: n.World.WorkerRank(n.Rank, local), Code: 1, Step: step, NaN: true, Time: time.Now()}
		if seen && (first == nil || f.Before(*first)) {
			first = &f
		}
	}
	return first
}

// isEarliest notes the loss for the other nodes. It returns false if one of them saw an earlier one.
func (n *LossWatch) isEarliest(ctx context.Context, mine *rendezvous.Failure) bool {
	earliest, err := n.Requests.NoteNaN(ctx, &n.World, *mine)
	return err != nil || earliest.Node == mine.Node
}

// report reports that the loss is not a number, and ends the generation if the job has a rule for that.
func (n *LossWatch) report(ctx context.Context, mine *rendezvous.Failure) error {
	if n.Acts {
		return n.Requests.FailLossNaN(ctx, &n.World, *mine)
	}
	return n.Requests.LossNaN(ctx, &n.World, *mine)
}

// LastLoss returns the last step that a worker reported in its directory. Where a loss was not a number, and
// the rules act on that, it is the step of that loss.
func LastLoss(workerDir string, rules rendezvous.Rules) (step *int64, nan bool) {
	tail := NewTail(FileOf(workerDir))
	p, _ := tail.Read()
	if at, seen := tail.LossNaN(); seen && rules.ActsOnNaN() {
		return at, true
	}
	return p.Step, false
}
