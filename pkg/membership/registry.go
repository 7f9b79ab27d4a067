package membership

import (
	"context"
	"fmt"
	"time"

	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Registry makes the requests on nodes/, left/ and suspects/ of one job. Each returns
// store.ErrMoved if a guard no longer holds: the caller must read again.
type Registry struct {
	Store store.Store
	Job   schema.Job
}

// Grant makes the lease of one registration. The store may grant a longer one.
func (r Registry) Grant(ctx context.Context, ttl time.Duration) (store.Lease, time.Duration, error) {
	l, granted, err := r.Store.Grant(ctx, ttl)
	if err != nil {
		return 0, 0, fmt.Errorf("grant lease: %w", err)
	}
	return l, granted, nil
}

// Joining is the registration of a node, and what it depends on.
type Joining struct {
	Node         Node
	JobRev       int64             // revision of the job as read
	Generation   schema.Generation // the newest, for the event
	Replaces     Incarnation       // the incarnation that it replaces, or ""
	OtherProgram bool              // the node runs another program than the job
	Warms        bool              // its workers start before a World has the node
	Also         []store.Write     // what it writes with its registration
}

// Join registers a node, if the job is unchanged and no other node has the name.
func (r Registry) Join(ctx context.Context, j Joining) (int64, error) {
	n := j.Node
	ev := history.Event{Kind: history.NodeJoined, Node: n.Node, Generation: j.Generation,
		Text: fmt.Sprintf("%s joined with %s at %s", n.Node, phrase.Count(n.Slots, "worker"), n.Address),
		Fields: history.Fields{"incarnation": n.Incarnation.Short(), "address": n.Address, "workers": n.Slots,
			"replaces":      nil,
			"other_program": j.OtherProgram}}
	if j.OtherProgram {
		ev.Text += "; it runs another program than the job"
	}
	if j.Replaces != "" {
		ev.Fields["replaces"] = j.Replaces.Short()
	}
	then := []store.Write{store.PutLeased(r.Job.Node(n.Node), schema.Encode(n), n.Lease),
		history.Tell(r.Job, ev)}
	then = append(then, j.Also...)
	if j.Warms {
		then = append(then, store.PutLeased(r.Job.Warming(n.Node), []byte(n.Incarnation), n.Lease))
	}
	rev, err := store.Send(ctx, r.Store, store.Request{
		If:   []store.Guard{store.Unchanged(r.Job.Job(), j.JobRev), store.Absent(r.Job.Node(n.Node))},
		Then: then,
	})
	return rev, wrap("join", err)
}

// Warmed records that the workers of a node wait for a World, or will not start before a World has
// the node. A late request has no effect on a later incarnation, because that has another
// registration.
func (r Registry) Warmed(ctx context.Context, n Node) error {
	here := store.Unchanged(r.Job.Node(n.Node), n.Rev)
	return r.apply(ctx, "say that the workers wait", store.Txn{If: []store.Guard{here},
		Then: []store.Write{store.Delete(r.Job.Warming(n.Node))}})
}

// Reregister writes the registration of a member again, as the same incarnation on a new lease. The
// old one has expired, or is the one of revision n.Rev, which is on another lease than n. worldRev
// is the revision of the World that lists the node as member. Without that guard, a node whose
// request was delayed could come back beside the generation that replaced it.
func (r Registry) Reregister(ctx context.Context, n Node, worldRev int64) (int64, error) {
	rev, err := store.Send(ctx, r.Store, store.Request{
		If: []store.Guard{store.Unchanged(r.Job.Node(n.Node), n.Rev),
			store.Unchanged(r.Job.World(), worldRev)},
		Then: []store.Write{store.PutLeased(r.Job.Node(n.Node), schema.Encode(n), n.Lease)},
	})
	return rev, wrap("register again", err)
}

// TakeOver deletes the registration of an earlier agent of this node. The caller holds the lock of
// the node on this host, so that agent is dead.
func (r Registry) TakeOver(ctx context.Context, dead Node) error {
	return r.apply(ctx, "replace the earlier registration", store.Txn{
		If:   []store.Guard{store.Unchanged(r.Job.Node(dead.Node), dead.Rev)},
		Then: []store.Write{store.Delete(r.Job.Node(dead.Node))},
	})
}

// Leave announces that the node stopped its workers, closed its captures and leaves, and deletes
// its registration.
func (r Registry) Leave(ctx context.Context, n Node, g schema.Generation, why Reason) error {
	text := map[Reason]string{Finished: "finished and left", ScaledIn: "left after the scale-in",
		Quarantined: "left the world, in quarantine", Drained: "left the world, drained"}[why]
	if text == "" {
		text = "left (" + string(why) + ")"
	}
	_, err := store.Send(ctx, r.Store, store.Request{
		If: []store.Guard{store.Unchanged(r.Job.Node(n.Node), n.Rev)},
		Then: []store.Write{
			store.Put(r.Job.Left(n.Node),
				schema.Encode(Left{Incarnation: n.Incarnation, Reason: why, Time: time.Now()})),
			store.Delete(r.Job.Node(n.Node)),
			history.Tell(r.Job, history.Event{Kind: history.NodeLeft, Node: n.Node, Generation: g,
				Text: n.Node + " " + text, Fields: history.Fields{"reason": why}}),
		},
	})
	return wrap("leave", err)
}

// MaxSuspicions is how many suspicions one transaction can write or withdraw.
const MaxSuspicions = 100

// Suspect writes suspicions of one watcher on its lease, at most MaxSuspicions. A suspicion alone
// has no effect: a proposer must confirm it.
func (r Registry) Suspect(
	ctx context.Context, watcher Node, g schema.Generation, all ...Suspicion,
) (int64, error) {
	req := store.Request{If: []store.Guard{store.Unchanged(r.Job.Node(watcher.Node), watcher.Rev)}}
	var events []history.Event
	for _, s := range all {
		req.Then = append(req.Then,
			store.PutLeased(r.Job.Suspect(s.Node, s.By), schema.Encode(s), watcher.Lease))
		events = append(events, history.Event{Kind: history.NodeSuspected, Node: s.Node, Generation: g,
			Text:   fmt.Sprintf("%s suspects %s (%s)", s.By, s.Node, s.Sign),
			Fields: history.Fields{"by": s.By, "sign": s.Sign}})
	}
	req.Then = append(req.Then, history.Tell(r.Job, events...))
	rev, err := store.Send(ctx, r.Store, req)
	return rev, wrap("suspect", err)
}

// Answer records in a suspicion that the suspected node is alive, if the suspicion is unchanged.
func (r Registry) Answer(ctx context.Context, s Suspicion, me Node) error {
	key := r.Job.Suspect(s.Node, s.By)
	s.Answered = true
	return r.apply(ctx, "answer a suspicion", store.Txn{
		If:   []store.Guard{store.Unchanged(key, s.Rev), store.Unchanged(r.Job.Node(me.Node), me.Rev)},
		Then: []store.Write{store.PutLeased(key, schema.Encode(s), s.Lease)},
	})
}

// Unanswered reads whether a suspicion is unchanged; it returns ErrMoved if it is not.
func (r Registry) Unanswered(ctx context.Context, s Suspicion) error {
	read, err := r.Store.Get(ctx, r.Job.Suspect(s.Node, s.By), "")
	if e := read.One(); err == nil && (e == nil || e.Rev != s.Rev) {
		err = store.ErrMoved
	}
	return wrap("read a suspicion", err)
}

// Withdrawal is a suspicion to withdraw.
type Withdrawal struct {
	Node, By string
	Rev      int64 // of the record
	Answers  bool  // the node answers again, which an event reports
}

// Withdraw deletes suspicions, at most MaxSuspicions; none if one of them has changed.
func (r Registry) Withdraw(ctx context.Context, g schema.Generation, all ...Withdrawal) error {
	var t store.Txn
	var events []history.Event
	for _, w := range all {
		key := r.Job.Suspect(w.Node, w.By)
		t.If = append(t.If, store.Unchanged(key, w.Rev))
		t.Then = append(t.Then, store.Delete(key))
		if w.Answers {
			events = append(events, history.Event{Kind: history.NodeCleared, Node: w.Node, Generation: g,
				Text: w.Node + " answers again", Fields: history.Fields{"by": w.By, "sign": Silent}})
		}
	}
	if len(events) > 0 {
		t.Then = append(t.Then, history.Tell(r.Job, events...))
	}
	return r.apply(ctx, "take suspicions back", t)
}

// apply sends a transaction once. After an error other than ErrMoved it may have been applied.
func (r Registry) apply(ctx context.Context, what string, t store.Txn) error {
	res, err := r.Store.Txn(ctx, t)
	if err == nil && !res.OK {
		err = store.ErrMoved
	}
	return wrap(what, err)
}

// wrap adds to an error what was being done.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
