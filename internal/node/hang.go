package node

import (
	"context"
	"fmt"

	"github.com/elasticd/elastic/internal/hang"
	"github.com/elasticd/elastic/internal/worker"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// watchHangs makes the workers of a world known to the nodes that ask about them, and ends them if
// they hang, if the user asked for that. It returns the channel on which a hang is reported.
func (w *workers) watchHangs(
	world rendezvous.World, g processes, over <-chan struct{},
) <-chan rendezvous.Failure {
	found := make(chan rendezvous.Failure, 1)
	group, ok := g.(*worker.Group)
	if !ok {
		w.hangs.Store(nil)
		close(found)
		return found
	}
	watch := &hang.Watch{Node: w.node, Logs: w.logs.Dir(), Timeout: w.o.HangTimeout, Workers: group,
		To: w.peers.To, Over: over,
		World: hang.World{Job: string(w.o.Job.Name), Generation: uint64(world.Generation),
			Members: world.Members, Slots: world.Slots}}
	w.hangs.Store(watch)
	if w.o.HangTimeout == 0 {
		close(found)
		return found
	}
	w.effects.Go(func(ctx context.Context) {
		defer close(found)
		f := watch.Run(ctx)
		if f == nil {
			return
		}
		w.notice(fmt.Sprintf("generation %d hangs: rank %d %s; %s", world.Generation, f.Rank,
			watch.BehindAs(), f.Bundle))
		seat := world.Members[f.Rank/world.Slots]
		found <- rendezvous.Failure{Node: seat.Node, Incarnation: seat.Incarnation, Rank: f.Rank,
			LocalRank: f.Rank % world.Slots,
			Code:      1, Hang: true, NotKnown: !f.Known, Message: f.Message, Detail: f.Detail}
	})
	return found
}

// answerHangs answers the questions of rank 0's node about the workers of this node.
func (w *workers) answerHangs() {
	for pattern, h := range hang.Handlers(w.hangs.Load) {
		w.peers.Server.Handle(pattern, h)
	}
}
