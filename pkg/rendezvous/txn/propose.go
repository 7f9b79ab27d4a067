package txn

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/phrase"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Propose makes the next generation. From here on no commit of an older one succeeds.
func (r Requests) Propose(
	ctx context.Context, seen *rendezvous.Snapshot, me membership.Node, p plan.Propose,
) (rendezvous.World, error) {
	w := p.World
	w.Proposal, w.Time = fmt.Sprintf("%012d-%s", w.Generation, rand.Text()), time.Now()
	if max(w.Count, len(w.Leavers)) > rendezvous.MaxInline {
		if err := r.putMembers(ctx, &w); err != nil {
			return rendezvous.World{}, err
		}
	}
	w.NoteChanges(seen.World)
	guards, writes := r.proposal(seen, me, &w)
	for _, x := range p.Evicted {
		guards = append(guards, r.isLost(x, me)...)
		writes = append(writes, store.Delete(r.Job.Node(x.Node)))
	}
	// absent, or another life of the node: else it could register again beside us
	for _, x := range p.Dropped {
		guards = append(guards, store.Unchanged(r.Job.Node(x.Node), x.Rev))
	}
	writes = append(writes, r.outdated(seen, &w, store.MaxOps-len(writes)-3)...)
	if p.NewHead != nil {
		_, kept, head := (&checkpoint.Record{Store: r.Store, Job: r.Job}).Rollback(seen.Head, *p.Older)
		guards, writes = append(guards, kept...), append(writes, head...)
	}
	writes = append(writes, history.Tell(r.Job, proposalEvents(seen, me, p, &w)...))
	rev, err := r.sendOn(ctx, r.fence(seen), "propose", store.Request{If: guards, Then: writes})
	w.Rev = rev
	return w, err
}

// proposal is what every proposal compares and writes.
func (r Requests) proposal(
	seen *rendezvous.Snapshot, me membership.Node, w *rendezvous.World,
) ([]store.Guard, []store.Write) {
	var worldRev int64
	if seen.World != nil {
		worldRev = seen.World.Rev
	}
	guards := []store.Guard{
		store.Unchanged(r.Job.World(), worldRev),
		store.Unchanged(r.Job.Job(), seen.Job.Rev),
		store.Unchanged(r.Job.Head(), seen.Head.Rev), // a commit between plan and propose would be lost
		store.Unchanged(r.Job.Node(me.Node), me.Rev),
		// a store that is behind: the job is made again above what it shows
		store.NoneBelow(r.Job.AllClaims()),
	}
	if seen.World != nil {
		// The last worker's exit may land now: a job that all ranks finished must not start again.
		guards = append(guards, store.NoneNewer(r.Job.Exits(seen.World.Generation), seen.Rev))
	}
	return guards, []store.Write{
		store.Put(r.Job.World(), w.Record()),
		store.Put(r.Job.Fence(), []byte(schema.FenceValue(w.UID, w.Generation))),
		store.DeleteRange(r.Job.AllReady(), schema.Before(r.Job.AllReady(), w.Generation)),
		store.DeleteRange(r.Job.AllParts(), schema.Before(r.Job.AllParts(), w.Generation)),
		store.DeleteRange(r.Job.AllExits(), schema.Before(r.Job.AllExits(), w.Generation-1)),
		store.DeleteRange(r.Job.AllFailures(), schema.Before(r.Job.AllFailures(), w.Generation-1)),
		store.DeleteRange(r.Job.AllPlans(), schema.Before(r.Job.AllPlans(), w.Generation-1)),
		store.Delete(r.Job.Progress()),
	}
}

// outdated deletes suspicions of nodes that are no members of w and notes about nodes that left: at
// most room of them. The nodes that wrote the other suspicions take them back; the next proposal
// deletes the other notes.
func (r Requests) outdated(seen *rendezvous.Snapshot, w *rendezvous.World, room int) (writes []store.Write) {
	members, before := rendezvous.NewRefSet(w.Members), rendezvous.RefSet{}
	if seen.World != nil {
		before = rendezvous.NewRefSet(slices.Concat(seen.World.Members, seen.World.Leavers))
	}
	for _, x := range seen.Suspects {
		if len(writes) < room && !members.Has(membership.Ref{Node: x.Node, Incarnation: x.Incarnation}) {
			writes = append(writes, store.Delete(r.Job.Suspect(x.Node, x.By)))
		}
	}
	for _, x := range seen.Left {
		// One that was just written may not have been seen by all: without it they would miss the
		// node.
		reported := seen.World != nil && x.Rev < seen.World.Rev
		if len(writes) < room && reported &&
			!before.Has(membership.Ref{Node: x.Node, Incarnation: x.Incarnation}) {
			writes = append(writes, store.Delete(r.Job.Left(x.Node)))
		}
	}
	return writes
}

// proposalEvents tell what a proposal changes and why.
func proposalEvents(
	seen *rendezvous.Snapshot, me membership.Node, p plan.Propose, w *rendezvous.World,
) []history.Event {
	var old schema.Generation
	if seen.World != nil {
		old = seen.World.Generation
	}
	events := lostEvents(old, me.Node, p.Lost)
	if p.Failure != nil {
		events = append(events, failureEvent(old, p.Failure))
	}
	if p.NewHead != nil {
		events = append(events, rollbackEvent(old, seen.Head, p))
	}
	events = append(events, quarantineEvents(seen, w.Ledger)...)
	return append(events, history.Event{Kind: history.WorldProposed, Generation: w.Generation,
		Text: fmt.Sprintf("generation %d proposed by %s: %s, world size %d", w.Generation, me.Node,
			phrase.Count(w.Count, "node"), w.Size()),
		Fields: withProgress(seen,
			history.Fields{"cause": w.Cause, "world_size": w.Size(), "world": w.Layout(),
				"plan":       w.Plan,
				"checkpoint": number(w), "by": me.Node, "resume_step": resumeStep(w)})})
}

// rollbackEvent tells why an older checkpoint takes the place of the newest.
func rollbackEvent(g schema.Generation, bad checkpoint.Head, p plan.Propose) history.Event {
	instead := fmt.Sprintf("%s is used instead, as checkpoint %d",
		rendezvous.DescribeHead(p.NewHead), p.NewHead.Number)
	if p.Distrust != "" {
		return history.Event{Kind: history.Distrusted, Generation: g,
			Text: fmt.Sprintf("checkpoint %d, %s, is not trusted: %s; %s", bad.Number,
				rendezvous.DescribeHead(&bad), p.Distrust, instead),
			Fields: history.Fields{"number": bad.Number, "step": bad.Step, "why": p.Distrust,
				"used_instead": p.NewHead.Number}}
	}
	return history.Event{Kind: history.Bad, Generation: g,
		Text:   fmt.Sprintf("checkpoint %d cannot be read on any of its holders: %s", bad.Number, instead),
		Fields: history.Fields{"number": bad.Number, "path": nil, "used_instead": p.NewHead.Number}}
}

// membersPerChunk keeps a chunk below etcd's 1.5 MB: a line has 64 bytes for a name, 32 for an
// incarnation and 259 for an address at most.
const membersPerChunk = 4000

// putMembers writes the members and leavers of a large world beside it, before it: no agent reads
// them before the world that names them is there.
func (r Requests) putMembers(ctx context.Context, w *rendezvous.World) error {
	w.Leaving = len(w.Leavers)
	for chunk := range slices.Chunk(slices.Concat(w.Members, w.Leavers), membersPerChunk) {
		_, err := r.send(ctx, "write members", store.Request{
			Then: []store.Write{store.Put(r.Job.Plan(w.Proposal, w.Chunks),
				rendezvous.EncodeMembers(chunk))}})
		if err != nil {
			return err
		}
		w.Chunks++
	}
	return nil
}

// resumeStep is the step that w begins from as an event shows it: 0 from scratch, nil if it is not
// known.
func resumeStep(w *rendezvous.World) any {
	if w.Resume == nil {
		return 0
	}
	return w.Resume.Step
}

// withProgress adds to f what the world of s reported last of its progress: the step, when its first
// step ended and when the one before that did, when it reported the last one, and the usual time in
// seconds between two reports; null: not known.
func withProgress(s *rendezvous.Snapshot, f history.Fields) history.Fields {
	f["last_step"], f["first_step_at"], f["step_before_at"], f["last_told"],
		f["told_every"] = lastStep(s), nil, nil, nil, nil
	if p := progressOf(s); p != nil {
		if p.First != nil {
			f["first_step_at"] = p.First.UTC().Format(history.TimeFormat)
		}
		if p.Before != nil {
			f["step_before_at"] = p.Before.UTC().Format(history.TimeFormat)
		}
		f["last_told"] = p.Time.UTC().Format(history.TimeFormat)
		if p.Interval != nil {
			f["told_every"] = time.Duration(*p.Interval).Seconds()
		}
	}
	return f
}

// progressOf is what the world of s reported last; nil if it reported nothing.
func progressOf(s *rendezvous.Snapshot) *rendezvous.Progress {
	if p := s.Progress; p != nil && s.World != nil && p.Generation == s.World.Generation {
		return p
	}
	return nil
}

// lastStep is the last step that the world before reported; nil if it reported none.
func lastStep(s *rendezvous.Snapshot) (step *int64) {
	if s.World == nil {
		return nil
	}
	if p := progressOf(s); p != nil {
		step = p.Step
	}
	if f := s.Failure; f != nil && f.Step != nil && (step == nil || *f.Step > *step) {
		step = f.Step
	}
	return step
}

// number is the checkpoint that w resumes from as an event shows it; nil for none.
func number(w *rendezvous.World) any {
	if w.Resume == nil {
		return nil
	}
	return w.Resume.Number
}
