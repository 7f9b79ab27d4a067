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

// Propose makes the next generation. After it no commit of an older one succeeds.
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
	// A dropped node is absent, or another incarnation is registered. Otherwise it could register
	// again.
	for _, x := range p.Dropped {
		guards = append(guards, store.Unchanged(r.Job.Node(x.Node), x.Rev))
	}
	writes = append(writes, r.deleteOutdated(seen, &w, store.MaxOps-len(writes)-3)...)
	switch {
	case p.BroughtFrom != "":
		record := schema.Encode(*p.NewHead)
		writes = append(writes, store.Put(r.Job.Checkpoint(uint64(p.NewHead.Number)), record),
			store.Put(r.Job.Head(), record), store.DeleteRange(r.Job.AllBrought(), store.End(r.Job.AllBrought())))
	case p.NewHead != nil:
		_, kept, head := (&checkpoint.Record{Store: r.Store, Job: r.Job}).Rollback(seen.Head, *p.Older)
		guards, writes = append(guards, kept...), append(writes, head...)
	}
	writes = append(writes, history.Tell(r.Job, proposalEvents(seen, me, p, &w)...))
	rev, err := r.sendOn(ctx, r.fence(seen), "propose", store.Request{If: guards, Then: writes})
	w.Rev = rev
	return w, err
}

// proposal returns the guards and writes that every proposal has.
func (r Requests) proposal(
	seen *rendezvous.Snapshot, me membership.Node, w *rendezvous.World,
) ([]store.Guard, []store.Write) {
	_, worldRev := worldOf(seen)
	guards := []store.Guard{
		store.Unchanged(r.Job.World(), worldRev),
		store.Unchanged(r.Job.Job(), seen.Job.Rev),
		store.Unchanged(r.Job.Head(), seen.Head.Rev), // else a commit between plan and proposal would be lost
		store.Unchanged(r.Job.Node(me.Node), me.Rev),
	}
	if seen.World != nil {
		// An exit may arrive now. A job all of whose ranks finished must not start again.
		guards = append(guards, store.NoneNewer(r.Job.Exits(seen.World.Generation), seen.Rev))
	}
	return guards, []store.Write{
		store.Put(r.Job.World(), w.Record()),
		store.Put(r.Job.Fence(), []byte(schema.FenceValue(w.UID, w.Generation))),
		store.DeleteRange(r.Job.AllReady(), schema.Before(r.Job.AllReady(), w.Generation)),
		store.DeleteRange(r.Job.AllParts(), schema.Before(r.Job.AllParts(), w.Generation)),
		store.DeleteRange(r.Job.AllExits(), schema.Before(r.Job.AllExits(), w.Generation-1)),
		store.DeleteRange(r.Job.AllFailures(), schema.Before(r.Job.AllFailures(), w.Generation-1)),
		store.DeleteRange(r.Job.AllNaNs(), schema.Before(r.Job.AllNaNs(), w.Generation)),
		store.DeleteRange(r.Job.AllPlans(), schema.Before(r.Job.AllPlans(), w.Generation-1)),
		store.Delete(r.Job.Progress()),
	}
}

// deleteOutdated deletes suspicions of nodes that are no members of w, and announcements of nodes
// that left, at most room of them. The nodes that wrote the other suspicions withdraw them. The
// next proposal deletes the other announcements.
func (r Requests) deleteOutdated(
	seen *rendezvous.Snapshot, w *rendezvous.World, room int,
) (writes []store.Write) {
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
		// Not all nodes may have seen an announcement that is newer than the World. Without it they
		// would report the node as lost.
		reported := seen.World != nil && x.Rev < seen.World.Rev
		if len(writes) < room && reported &&
			!before.Has(membership.Ref{Node: x.Node, Incarnation: x.Incarnation}) {
			writes = append(writes, store.Delete(r.Job.Left(x.Node)))
		}
	}
	return writes
}

// proposalEvents returns the events of a proposal.
func proposalEvents(
	seen *rendezvous.Snapshot, me membership.Node, p plan.Propose, w *rendezvous.World,
) []history.Event {
	old, _ := worldOf(seen)
	events := lostEvents(old, me.Node, p.Lost)
	if p.Failure != nil {
		events = append(events, failureEvent(old, p.Failure))
	}
	switch {
	case p.BroughtFrom != "":
		events = append(events, broughtEvent(p))
	case p.NewHead != nil:
		events = append(events, rollbackEvent(old, seen.Head, p))
	}
	events = append(events, quarantineEvents(seen, w.Ledger)...)
	text := fmt.Sprintf("generation %d proposed by %s: %s, world size %d", w.Generation, me.Node,
		phrase.Count(w.Count, "node"), w.Size())
	if w.Unsaved != "" {
		text += "; " + w.Unsaved
	}
	return append(events, history.Event{Kind: history.WorldProposed, Generation: w.Generation, Text: text,
		Fields: withProgress(seen,
			history.Fields{"cause": w.Cause, "world_size": w.Size(), "world": w.Layout(),
				"plan":       w.Plan,
				"checkpoint": number(w), "by": me.Node, "resume_step": resumeStep(w),
				"unsaved": w.Unsaved})})
}

// broughtEvent says from which checkpoint of an earlier job this one begins.
func broughtEvent(p plan.Propose) history.Event {
	h := p.NewHead
	var nodes []string
	for _, n := range h.Holders {
		nodes = append(nodes, n.Node)
	}
	return history.Event{Kind: history.Brought, Generation: p.World.Generation,
		Text: fmt.Sprintf("the job begins from checkpoint %d%s of run %s, which %s brought", h.Number,
			checkpoint.AtStep(h.Step), p.BroughtFrom, phrase.List(nodes)),
		Fields: history.Fields{"number": h.Number, "step": h.Step, "run": p.BroughtFrom, "nodes": nodes}}
}

// rollbackEvent says why an older checkpoint replaces the newest.
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

// membersPerChunk keeps a chunk below etcd's limit of 1.5 MB. A line has at most 64 bytes for a
// name, 32 for an incarnation and 259 for an address.
const membersPerChunk = 4000

// putMembers writes the members and leavers of a large World beside it, in an earlier request. No
// agent reads them before the World names them.
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

// resumeStep is the step that w begins from, for an event: 0 from scratch, nil if not known.
func resumeStep(w *rendezvous.World) any {
	if w.Resume == nil {
		return 0
	}
	return w.Resume.Step
}

// withProgress adds to f what the World of s last reported of its progress: the last step, when its
// first step ended, when the step before that ended, when the last report came, and the usual
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

// progressOf returns what the World of s last reported; nil if nothing.
func progressOf(s *rendezvous.Snapshot) *rendezvous.Progress {
	if p := s.Progress; p != nil && s.World != nil && p.Generation == s.World.Generation {
		return p
	}
	return nil
}

// lastStep is the last step that the World of s reported; nil if none.
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

// number is the number of the checkpoint that w resumes from, for an event; nil for none.
func number(w *rendezvous.World) any {
	if w.Resume == nil {
		return nil
	}
	return w.Resume.Number
}
