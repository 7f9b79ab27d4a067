package txn

import (
	"context"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Ready reports that node me has stopped every older worker and has what generation w needs.
func (r Requests) Ready(
	ctx context.Context, w *rendezvous.World, me membership.Node, rd rendezvous.Ready,
) error {
	rd.Incarnation = me.Incarnation
	_, err := r.send(ctx, "report ready", store.Request{
		If: []store.Guard{schema.FenceIs(r.Job, w.UID, w.Generation),
			store.Unchanged(r.Job.Node(me.Node), me.Rev)},
		Then: []store.Write{store.Put(r.Job.Ready(w.Generation, me.Node), schema.Encode(rd))},
	})
	return err
}

// Exit reports how the workers of node ended. It replaces the record with revision x.Rev; 0: there
// is none.
func (r Requests) Exit(
	ctx context.Context, w *rendezvous.World, node string, x rendezvous.Exit,
) (int64, error) {
	return r.send(ctx, "report exit", store.Request{
		If: []store.Guard{schema.FenceIs(r.Job, w.UID, w.Generation),
			store.Unchanged(r.Job.Exit(w.Generation, node), x.Rev)},
		Then: []store.Write{store.Put(r.Job.Exit(w.Generation, node), schema.Encode(x))},
	})
}

// NoteNaN records the loss f that is not a number, if no node has noted an earlier one of the
// generation. It returns the earliest: other ranks see the consequences of one bad loss a step later.
func (r Requests) NoteNaN(
	ctx context.Context, w *rendezvous.World, f rendezvous.Failure,
) (earliest rendezvous.Failure, err error) {
	key := r.Job.NaN(w.Generation)
	for {
		read, err := r.Store.Get(ctx, key, "")
		if err != nil {
			return f, err
		}
		if e := read.One(); e != nil {
			known, err := schema.Decode[rendezvous.Failure](e)
			if err != nil || !f.Before(known) {
				return known, err
			}
		}
		_, err = r.send(ctx, "note a loss that is not a number", store.Request{
			If:   []store.Guard{schema.FenceIs(r.Job, w.UID, w.Generation), store.Unchanged(key, revOf(read.One()))},
			Then: []store.Write{store.Put(key, schema.Encode(f))},
		})
		if !store.Moved(err) {
			return f, err
		}
		now, bad := r.Store.Get(ctx, key, "")
		if bad != nil || revOf(now.One()) == revOf(read.One()) {
			return f, err // the fence has moved
		}
	}
}

func revOf(e *store.Entry) int64 {
	if e == nil {
		return 0
	}
	return e.Rev
}

// LossNaN writes the event that the loss of a generation is not a number.
func (r Requests) LossNaN(ctx context.Context, w *rendezvous.World, f rendezvous.Failure) error {
	return r.lossNaN(ctx, w, f)
}

// FailLossNaN is LossNaN that also ends the generation with the failure f.
func (r Requests) FailLossNaN(ctx context.Context, w *rendezvous.World, f rendezvous.Failure) error {
	return r.lossNaN(ctx, w, f, store.Put(r.Job.Failure(w.Generation), schema.Encode(f)))
}

func (r Requests) lossNaN(
	ctx context.Context, w *rendezvous.World, f rendezvous.Failure, more ...store.Write,
) error {
	req := store.Request{
		If: []store.Guard{store.Unchanged(r.Job.World(), w.Rev), store.Absent(r.Job.Failure(w.Generation))},
		Then: []store.Write{history.Tell(r.Job, history.Event{Kind: history.LossNaN, Generation: w.Generation,
			Node: f.Node, Text: f.String(), Fields: history.Fields{"rank": f.Rank, "step": f.Step}})}}
	req.Then = append(req.Then, more...)
	_, err := r.sendOn(ctx, schema.FenceIs(r.Job, w.UID, w.Generation), "report a loss that is not a number",
		req)
	return err
}

// StallChange is what a report of progress says of what its world waits for.
type StallChange int

const (
	SameStall StallChange = iota
	Stalled               // all ranks were looked at, because no step came
	StallOver             // steps came again
	Slowed                // the others wait for a rank in each step
)

// Report is what the workers of a generation report.
type Report struct {
	Progress rendezvous.Progress
	Change   StallChange
	Also     []store.Write // what belongs to it
}

// Progress writes a report of a generation, while no newer one is proposed. It is sent once: the next
// report replaces a lost one.
func (r Requests) Progress(ctx context.Context, w *rendezvous.World, report Report) error {
	p, change := report.Progress, report.Change
	writes := append(report.Also, store.Put(r.Job.Progress(), schema.Encode(p)))
	e := history.Event{Kind: history.StallOver, Generation: w.Generation, Text: "steps are made again"}
	if s := p.Stall; change == Stalled {
		e.Kind, e.Node, e.Text = history.Stalled, s.Node, s.String()
		e.Fields = history.Fields{"rank": s.Rank, "known": s.Known, "busy": s.Busy, "reason": s.Reason,
			"stack": s.Stack}
	}
	if s := p.Slow; change == Slowed {
		e.Kind, e.Node, e.Text = history.SlowRank, s.Node, s.String()
		e.Fields = history.Fields{"rank": s.Rank, "whole_node": s.Whole, "own": s.Own, "usual": s.Usual,
			"costs": s.Costs}
	}
	if change != SameStall {
		writes = append(writes, history.Tell(r.Job, e))
	}
	_, err := r.Store.Txn(ctx, store.Txn{
		If:   []store.Guard{schema.FenceIs(r.Job, w.UID, w.Generation)},
		Then: writes,
	})
	return err
}

// Fail records failures of a generation, in the order of time. They are merged with the record in
// the store (rendezvous.Failure.With). The guard is the World and not the fence: a worker that ends
// because all were asked to stop has not failed.
func (r Requests) Fail(ctx context.Context, w *rendezvous.World, failures ...rendezvous.Failure) error {
	var known rendezvous.Failure // its revision is that of the record in the store
	for {
		record, more := merged(known, failures)
		if !more {
			return nil
		}
		_, err := r.sendOn(ctx, schema.FenceIs(r.Job, w.UID, w.Generation), "report failure", store.Request{
			If: []store.Guard{store.Unchanged(r.Job.World(), w.Rev),
				store.Unchanged(r.Job.Failure(w.Generation), known.Rev)},
			Then: []store.Write{store.Put(r.Job.Failure(w.Generation), schema.Encode(record))},
		})
		if !store.Moved(err) {
			return err
		}
		read, bad := r.Store.Get(ctx, r.Job.Failure(w.Generation), "")
		if bad != nil {
			return bad
		}
		e := read.One()
		if e == nil || e.Rev == known.Rev {
			return err // the World has changed
		}
		if known, bad = schema.Decode[rendezvous.Failure](e); bad != nil {
			return bad
		}
		known.Rev = e.Rev
	}
}

// merged returns the record with the failures added; more reports whether they add anything.
func merged(known rendezvous.Failure, failures []rendezvous.Failure) (record rendezvous.Failure, more bool) {
	record = known
	for i, f := range failures {
		if i == 0 && known.Rev == 0 {
			record, more = f, true
			continue
		}
		next, says := record.With(f)
		record, more = next, more || says
	}
	return record, more
}
