package agent

import (
	"context"
	"slices"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
)

// commitOrphan commits the save that rank 0 of the replaced World had copied to this node and can
// no longer commit. Propose then fails, because the head has changed, and is planned again. A save
// that cannot be committed is lost with its generation.
func (l *loop) commitOrphan(ctx context.Context, a message.Take, step plan.Propose) {
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
