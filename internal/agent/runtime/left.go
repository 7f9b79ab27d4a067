package runtime

import (
	"context"
	"slices"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
)

// commitOrphan commits the save that rank 0 of the world that step replaces had copied to this
// node, and can commit no more. Propose then finds another head, and is planned anew. What cannot
// be committed is lost with its generation.
func (l *loop) commitOrphan(ctx context.Context, a action.Take, step plan.Propose) {
	zero := a.Seen.Capturer()
	me := a.Seen.Node(a.Me.Node)
	if zero.Node == "" || me == nil || zero.Node == me.Node {
		return
	}
	registered := slices.ContainsFunc(a.Seen.Nodes, func(n membership.Node) bool { return n.Same(zero) })
	for _, m := range step.Evicted {
		registered = registered && !m.Same(zero)
	}
	if !registered {
		// An error does not keep the step back: the other nodes wait for it, and a disk that fails
		// would hold the job for ever.
		_ = l.Saves.CommitLeft(ctx, *a.Seen.World, *me)
	}
}

// forgetEnded: a job that is done is not claimed, and one that failed or was stopped as such.
func (l *loop) forgetEnded(a action.Leave) {
	c, err := l.Disk.Recall(a.Me.Node)
	if err != nil || c == nil || !a.Ended.Ended() {
		return
	}
	if c.Phase = a.Ended; a.Ended == rendezvous.Done {
		c = nil
	}
	// After an error the disk has the claim as it was. If the store loses the job later, that claim
	// makes nodes wait longer than they have to; it does no other harm.
	_ = l.Disk.Remember(a.Me.Node, c)
}
