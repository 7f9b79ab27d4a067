package machine

import (
	"maps"
	"slices"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// Watch sets which nodes this one watches, and writes and withdraws suspicions.
func (d *Detection) Watch(f *Sight, out *message.Outbox) {
	if d.watchedIn == nil || d.watchedIn != f.World || len(d.suspected) > 0 {
		if refs := d.predecessors(f); !sameRefs(refs, d.watched) {
			d.watched = refs
			out.Do(message.WatchNodes{Refs: refs})
		}
		d.watchedIn = f.World
		if len(d.suspected) > 0 {
			d.watchedIn = nil
		}
	}
	maps.DeleteFunc(d.suspected, func(_ membership.Incarnation, s membership.Signal) bool {
		return !slices.ContainsFunc(d.watched, s.Same) // not watched now: it may answer again
	})
	d.writeSuspicions(f, out)
	d.withdrawSuspicions(f, out)
}

// writeSuspicions writes each suspicion once. Those that come while a request is under way go with
// the next one. A closed connection to a node that left or was replaced is no suspicion.
func (d *Detection) writeSuspicions(f *Sight, out *message.Outbox) {
	var news []membership.Suspicion
	for _, inc := range slices.Sorted(maps.Keys(d.suspected)) {
		s := d.suspected[inc]
		judged := d.View.Find(s.Ref)
		removed := judged != nil && judged.Removed
		if d.written[inc] || removed || len(news) == membership.MaxSuspicions {
			continue
		}
		news = append(news, membership.Suspicion{Node: s.Node, By: f.Self.Node, Incarnation: inc,
			Watcher: f.Self.Incarnation,
			Sign:    s.Sign, SilentMS: s.Silent.Milliseconds(), Never: s.Never})
	}
	if len(news) == 0 || !f.Registered ||
		!out.Request(message.KindSuspect, message.Suspect{Suspicions: news, Me: f.Self,
			Generation: generation(f.World)}) {
		return
	}
	for _, s := range news {
		d.written[s.Incarnation] = true
	}
}

// withdrawSuspicions deletes the suspicions that this incarnation wrote and no longer holds: the
// node answers again, or was dropped before the suspicion arrived, or this process stood still and
// forgot it. The store says which suspicions there are, and not the memory of this process.
func (d *Detection) withdrawSuspicions(f *Sight, out *message.Outbox) {
	snap, w := f.Snapshot, f.World
	writing := out.UnderWay(message.KindSuspect)
	maps.DeleteFunc(d.written, func(inc membership.Incarnation, _ bool) bool {
		_, held := d.suspected[inc]
		return !held && !writing
	})
	if !snap.Whole || w == nil || snap.Rev < w.Rev {
		return // the snapshot may not show yet what the newest Propose deleted
	}
	var back []membership.Withdrawal
	for _, s := range snap.Suspects {
		inc := s.Incarnation
		if _, held := d.suspected[inc]; held || d.written[inc] || s.By != f.Self.Node ||
			s.Watcher != f.Self.Incarnation || len(back) == membership.MaxSuspicions {
			continue
		}
		back = append(back, membership.Withdrawal{Node: s.Node, By: s.By, Rev: s.Rev,
			Answers: d.evidence.Answers[inc].Kind == membership.Same})
	}
	if len(back) > 0 {
		out.Request(message.KindWithdraw, message.Withdraw{Suspicions: back, Generation: w.Generation})
	}
}

// predecessors returns the nodes that this one watches, including those behind nodes that refuse
// its dials.
func (d *Detection) predecessors(f *Sight) []membership.Ref {
	w := f.World
	if w == nil || w.Phase.Ended() || len(w.Members) == 0 {
		return nil
	}
	ring := w.Members
	if w.Rank(f.Self.Ref) < 0 { // spares come after the ranks, so they watch the last ranks
		ring = append(ring[:len(ring):len(ring)], f.Self.Ref)
	}
	refused := func(r membership.Ref) bool {
		return d.suspected[r.Incarnation].Sign == membership.ConnectionClosed
	}
	watched := membership.WatchTargets(ring, f.Self.Ref, verdict.Watchers, refused)
	return slices.DeleteFunc(watched, func(r membership.Ref) bool { return r.Node == f.Self.Node })
}

func sameRefs(a, b []membership.Ref) bool { return slices.EqualFunc(a, b, membership.Ref.Same) }

// generation returns the generation of w; 0: there is no World.
func generation(w *rendezvous.World) schema.Generation {
	if w == nil {
		return 0
	}
	return w.Generation
}

// OwesRecords reports whether this agent suspects a node, or has to withdraw a suspicion that may
// still be in the store.
func (d *Detection) OwesRecords(f *Sight) bool {
	snap := f.Snapshot
	mine := func(s membership.Suspicion) bool {
		return s.By == f.Self.Node && s.Watcher == f.Self.Incarnation
	}
	if d.newestRecord > 0 && snap.Whole && snap.Rev >= d.newestRecord &&
		!slices.ContainsFunc(snap.Suspects, mine) {
		d.newestRecord = 0
	}
	return len(d.suspected) > 0 || len(d.written) > 0 || d.newestRecord > 0
}
