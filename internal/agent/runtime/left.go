package runtime

import (
	"context"
	"slices"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
)

// commitOrphan commits the save that rank 0 of the replaced World had copied to this node and can
// no longer commit. Propose then fails, because the head has changed, and is planned again. A save
// that cannot be committed is lost with its generation.
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
		// An error does not delay the step. The other nodes wait for it, and a failing disk would
		// hold the job for ever.
		_ = l.Saves.CommitLeft(ctx, *a.Seen.World, *me)
	}
}

// forgetEnded makes the memory of this node fit the end of its attempt: a job that is done is not
// claimed, and one that failed or was stopped is claimed as that.
func (l *loop) forgetEnded(a action.Leave) {
	c, err := l.Disk.Recall(a.Me.Node)
	if err != nil || c == nil || !a.Ended.Ended() {
		return
	}
	if c.Phase = a.Ended; a.Ended == rendezvous.Done {
		c = nil
	}
	// After an error the disk has the old claim. If the store loses the job later, nodes wait
	// longer because of that claim; it does no other harm.
	_ = l.Disk.Remember(a.Me.Node, c)
}
