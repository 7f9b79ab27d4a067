package runtime

import (
	"context"
	"slices"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
)

// rankZero is the node that captures for the newest generation, if what it left may still be
// committed: no newer generation was proposed, and none of its workers computed garbage.
func rankZero(s *rendezvous.Snapshot) membership.Ref {
	w := s.World
	if w == nil || w.Generation != s.Fence || len(w.Members) == 0 || s.Failure != nil && s.Failure.NaN {
		return membership.Ref{}
	}
	return w.Members[0]
}

// commitOrphan commits what rank 0 of the world that step replaces left with this node: it had made
// the copy and could not commit it any more. Propose then finds another head, and is planned anew.
// What cannot be committed is lost with its generation.
func (l *loop) commitOrphan(ctx context.Context, a action.Take, step plan.Propose) {
	zero := rankZero(&a.Seen)
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

// commitOwn commits what node n left captured and uncommitted as rank 0, before it joins: as soon
// as it is registered the next generation may begin.
func (l *loop) commitOwn(ctx context.Context, s *rendezvous.Snapshot, n membership.Node) error {
	if rankZero(s).Node != n.Node {
		return nil
	}
	whole, err := rendezvous.Read(ctx, l.Store, l.Job.Name) // with the record of a failure
	if err != nil {
		return err
	}
	if rankZero(&whole).Node != n.Node {
		return nil
	}
	return l.Saves.CommitLeft(ctx, *whole.World, n)
}
