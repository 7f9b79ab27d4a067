package workers

import (
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// Workers of a spare may start before a world has it. They import what the script imports, and wait
// for their first World. They connect under the generation of the newest World, and report that they
// left it. They use neither its store nor its ports. Their end is no failure, because no World has
// them. A change of the World leaves them waiting.

// WarmLimit is how long workers may take until they wait for their first World.
const WarmLimit = 5 * time.Minute

// askAgain is the pause after the workers of the others could not stay, before they are asked
// again. They may have been at their imports.
const askAgain = 10 * time.Second

// StartFirst starts workers that wait for their first World, once in a generation. They get the
// World like in the meantime: the newest World with this node as one more member.
func (w *Workers) StartFirst(like rendezvous.World, f *Facts, out *message.Outbox) {
	if g := w.Group; g != nil && (!g.Dead || g.Started || f.Now.Before(g.haltedAt.Add(askAgain))) {
		return
	}
	w.Group = &Group{World: like, codes: make([]*int, like.Slots), First: true, Halt: message.HaltPaused,
		haltedAt: f.Now, closed: true}
	out.RequestFor(message.KindStart, like.Generation, message.StartWorkers{Start: message.Start{World: like,
		Rank: like.Count - 1, Node: f.Self.Node, Waits: true}})
}

// FirstSettled reports whether workers wait for their first World, or will not start before it.
func (w *Workers) FirstSettled() bool { return w.Group != nil && (w.Group.Paused || w.Group.Dead) }

// firstOrder is the order for workers that wait for their first World, or will. They are ended if
// one of them fails or they are late, and if this node leaves or the job has no use for them. A
// member starts other workers in place of those that do not wait yet.
func (g *Group) firstOrder(f *Facts, out *message.Outbox) order {
	limit := g.haltedAt.Add(WarmLimit)
	late := f.member() || !f.Now.Before(limit)
	if !g.Paused && !late {
		out.Wake(limit)
	}
	w := f.World
	over := f.Leaving != nil || f.Dropped || w != nil && (w.Phase.Ended() || w.Attempt != f.Self.Attempt)
	if g.unfit || g.Paused && !g.canStay || !g.Paused && late || over {
		return endNow()
	}
	return order{}
}

// needsNoCheckpoint reports whether the workers here wait for the newest World, and hold the state
// or get it from another member. A member of the World for which they were started has the state or
// the checkpoint.
func (w *Workers) needsNoCheckpoint(f *Facts) bool {
	g := w.Group
	hasState := func(o membership.Ref) bool { return !o.Same(f.Self.Ref) && g.World.Rank(o) >= 0 }
	return w.holdsState(f) || w.waiting(f) && g.First && slices.ContainsFunc(f.World.Members, hasState)
}
