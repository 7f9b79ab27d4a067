package membership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elasticd/elastic/internal/history"
	"github.com/elasticd/elastic/internal/keys"
)

// Registry makes the requests on nodes/, left/ and suspects/ of one job.
// Each returns keys.ErrMoved when a guard no longer holds: read again.
type Registry struct {
	Store keys.Store
	Job   keys.Job
}

// Grant makes the lease that a registration lives on, alone. The store may grant a longer one.
func (r Registry) Grant(ctx context.Context, ttl time.Duration) (keys.Lease, time.Duration, error) {
	l, granted, err := r.Store.Grant(ctx, ttl)
	if err != nil {
		return 0, 0, fmt.Errorf("grant lease: %w", err)
	}
	return l, granted, nil
}

// Join registers n while the job is the one that was read at jobRev and nobody has the name.
// g is the newest generation, for the
// record; replaces is the incarnation whose place it takes, or "".
func (r Registry) Join(ctx context.Context, n Node, jobRev int64, g keys.Generation, replaces Incarnation) (int64, error) {
	ev := history.Event{Kind: history.NodeJoined, Node: n.Node, Generation: g,
		Text:   fmt.Sprintf("%s joined with %s at %s", n.Node, workers(n.Slots), n.Address),
		Fields: history.Fields{"incarnation": n.Incarnation.Short(), "address": n.Address, "workers": n.Slots, "replaces": nil}}
	if replaces != "" {
		ev.Fields["replaces"] = replaces.Short()
	}
	rev, err := keys.Send(ctx, r.Store, keys.Request{
		If: []keys.Guard{keys.Unchanged(r.Job.Job(), jobRev), keys.Absent(r.Job.Node(n.Node))},
		Then: []keys.Write{
			keys.PutLeased(r.Job.Node(n.Node), keys.Encode(n), n.Lease),
			history.Tell(r.Job, ev),
		},
	})
	return rev, wrap("join", err)
}

func workers(n int) string {
	if n == 1 {
		return "1 worker"
	}
	return fmt.Sprintf("%d workers", n)
}

// Reregister puts the registration of a member back whose lease ran out: the same incarnation on a
// new lease. worldRev is the world that lists it as member: without that guard a node that
// froze on the way would come back registered beside the generation that replaced it.
func (r Registry) Reregister(ctx context.Context, n Node, worldRev int64) (int64, error) {
	rev, err := keys.Send(ctx, r.Store, keys.Request{
		If:   []keys.Guard{keys.Absent(r.Job.Node(n.Node)), keys.Unchanged(r.Job.World(), worldRev)},
		Then: []keys.Write{keys.PutLeased(r.Job.Node(n.Node), keys.Encode(n), n.Lease)},
	})
	return rev, wrap("register again", err)
}

// TakeOver deletes the registration of a dead predecessor. Its caller holds the lock of this node
// on this host, which its predecessor held as long as it lived.
func (r Registry) TakeOver(ctx context.Context, dead Node) error {
	res, err := r.Store.Txn(ctx, keys.Txn{
		If:   []keys.Guard{keys.Unchanged(r.Job.Node(dead.Node), dead.Rev)},
		Then: []keys.Write{keys.Delete(r.Job.Node(dead.Node))},
	})
	if err != nil {
		return wrap("replace the earlier registration", err)
	}
	if !res.OK {
		return wrap("replace the earlier registration", keys.ErrMoved)
	}
	return nil
}

// Leave says that the node stopped its workers, closed its captures and goes.
func (r Registry) Leave(ctx context.Context, n Node, g keys.Generation, why Reason) error {
	text := map[Reason]string{Finished: "finished and left", ScaledIn: "left after the scale-in"}[why]
	if text == "" {
		text = "left (" + string(why) + ")"
	}
	_, err := keys.Send(ctx, r.Store, keys.Request{
		If: []keys.Guard{keys.Unchanged(r.Job.Node(n.Node), n.Rev)},
		Then: []keys.Write{
			keys.Put(r.Job.Left(n.Node), keys.Encode(Left{Incarnation: n.Incarnation, Reason: why, Time: time.Now()})),
			keys.Delete(r.Job.Node(n.Node)),
			history.Tell(r.Job, history.Event{Kind: history.NodeLeft, Node: n.Node, Generation: g,
				Text: n.Node + " " + text, Fields: history.Fields{"reason": why}}),
		},
	})
	return wrap("leave", err)
}

// Suspect records a suspicion on the watcher's own lease, so that it ends with its watcher.
// It is no claim: only a proposer that confirms it makes anything of it.
func (r Registry) Suspect(ctx context.Context, s Suspicion, watcher Node, g keys.Generation) (int64, error) {
	rev, err := keys.Send(ctx, r.Store, keys.Request{
		If: []keys.Guard{keys.Unchanged(r.Job.Node(s.By), watcher.Rev)},
		Then: []keys.Write{
			keys.PutLeased(r.Job.Suspect(s.Node, s.By), keys.Encode(s), watcher.Lease),
			history.Tell(r.Job, history.Event{Kind: history.NodeSuspected, Node: s.Node, Generation: g,
				Text:   fmt.Sprintf("%s suspects %s (%s)", s.By, s.Node, s.Sign),
				Fields: history.Fields{"by": s.By, "sign": s.Sign}}),
		},
	})
	return rev, wrap("suspect", err)
}

// Clear takes the suspicion of by about node back. That it answers again, if so, is told.
func (r Registry) Clear(ctx context.Context, node, by string, rev int64, g keys.Generation, answers bool) error {
	t := keys.Txn{If: []keys.Guard{keys.Unchanged(r.Job.Suspect(node, by), rev)}, Then: []keys.Write{keys.Delete(r.Job.Suspect(node, by))}}
	if answers {
		t.Then = append(t.Then, history.Tell(r.Job, history.Event{Kind: history.NodeCleared, Node: node, Generation: g,
			Text: node + " answers again", Fields: history.Fields{"by": by, "sign": Silent}}))
	}
	res, err := r.Store.Txn(ctx, t)
	if err == nil && !res.OK {
		err = keys.ErrMoved
	}
	return wrap("clear suspicion", err)
}

// Keep renews lease l every third of ttl until ctx ends or the store says that it is gone.
// report is told the outcome of every renewal: nil, keys.ErrLeaseLost (the last call), or an
// error that says nothing about the lease. sent is when the renewal was *sent*: validity
// counts from there.
func Keep(ctx context.Context, s keys.Store, l keys.Lease, ttl time.Duration, report func(sent time.Time, err error)) {
	every := ttl / 3
	wait := time.NewTimer(every)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		sent := time.Now()
		err := s.Renew(ctx, l)
		if ctx.Err() != nil {
			return
		}
		report(sent, err)
		switch {
		case errors.Is(err, keys.ErrLeaseLost):
			return
		case err != nil:
			wait.Reset(min(every, 200*time.Millisecond)) // the store has its own deadline per try
		default:
			wait.Reset(max(0, every-time.Since(sent)))
		}
	}
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
