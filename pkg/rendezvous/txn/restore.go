package txn

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Unrestorable says why no other checkpoint may become the head now; "" if one may. The job must
// neither train nor save. A World without registered nodes does not train.
func Unrestorable(s *rendezvous.Snapshot) string {
	w := s.World
	switch {
	case w == nil, w.Phase == rendezvous.Failed, w.Phase == rendezvous.Stopped:
		return ""
	case w.Phase == rendezvous.Done:
		return "it is done: nothing starts from its checkpoints any more"
	case w.Phase != rendezvous.Waiting && len(s.Nodes) > 0:
		return fmt.Sprintf("generation %d is %s", w.Generation, w.Phase)
	case w.Phase == rendezvous.Waiting && w.Hold.Planned && saving(s):
		return fmt.Sprintf("the workers of generation %d are saving", w.Generation)
	}
	return ""
}

// saving reports whether a registered member has not yet written that it saved and stopped.
func saving(s *rendezvous.Snapshot) bool {
	for _, m := range s.World.Members {
		n, x := s.Node(m.Node), s.Exits[m.Node]
		if n != nil && n.Same(m) && !(x.Incarnation == m.Incarnation && x.Ended()) {
			return true
		}
	}
	return false
}

// Restore makes an earlier checkpoint the head again, under the next number. The next World starts
// from it.
//
// Restore moves the fence by one generation that has no World. So a commit of the generation
// before, however late it arrives, cannot undo it. If no node is registered, Restore sets the World
// to waiting, so that a node that was only cut off from the store stops its workers.
func (r Requests) Restore(
	ctx context.Context, seen *rendezvous.Snapshot, to checkpoint.Head,
) (checkpoint.Head, error) {
	from, was := to.Number, to.Rev
	to.Number = seen.Head.Number + 1
	to.Restored = true
	g, worldRev := worldOf(seen)
	holders := []string{}
	for _, h := range to.Holders {
		holders = append(holders, h.Node)
	}
	record := schema.Encode(to)
	req := store.Request{
		If: []store.Guard{
			store.Unchanged(r.Job.Job(), seen.Job.Rev),
			store.Unchanged(r.Job.World(), worldRev),
			store.Unchanged(r.Job.Head(), seen.Head.Rev),
			// The bytes of a checkpoint are kept as long as its record exists.
			store.Unchanged(r.Job.Checkpoint(uint64(from)), was),
			schema.FenceIs(r.Job, seen.Job.UID, seen.Fence),
		},
		Then: []store.Write{
			history.Tell(r.Job, history.Event{Kind: history.Committed, Generation: to.Generation,
				Text: fmt.Sprintf("checkpoint %d committed: the operator restored checkpoint %d (%s)",
					to.Number, from, rendezvous.DescribeHead(&to)),
				Fields: history.Fields{"number": to.Number, "step": to.Step, "samples": to.Samples,
					"bytes": to.Bytes, "holders": holders, "copies": to.Copies, "seconds": nil, "restored": from}}),
			store.Put(r.Job.Checkpoint(uint64(to.Number)), record),
			store.Put(r.Job.Head(), record),
			store.Put(r.Job.Fence(), []byte(schema.FenceValue(seen.Job.UID, seen.Fence+1))),
		},
	}
	if w := seen.World; w != nil && !w.Phase.Ended() && w.Phase != rendezvous.Waiting {
		held := *w
		held.Phase, held.Time, held.Turn = rendezvous.Waiting, time.Now(), rand.Text()
		held.Hold = &rendezvous.Hold{Why: rendezvous.NodesMissing, Cause: rendezvous.CauseNodeLost,
			Text: fmt.Sprintf("no node of generation %d is registered; checkpoint %d was restored", g, from)}
		req.If = append(req.If, store.NoneBelow(r.Job.Nodes()))
		req.Then = append(req.Then, store.Put(r.Job.World(), held.Record()))
	}
	rev, err := r.send(ctx, "restore checkpoint", req)
	to.Rev = rev
	return to, err
}
