// Package follow tells of every change of a job, as snapshots.
package follow

import (
	"context"
	"time"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Scope is what an agent follows of its job. ScopeAll is for the few agents that plan. The others
// use ScopeOwn, the world and their own registration, which says all that a member must ever do.
type Scope int

const (
	ScopeOwn Scope = iota
	ScopeAll
	ScopeClaims // while the store does not hold the job: whether it does again, and the claims to it
	ScopeJob    // likewise without the claims, for nodes that leave these to others
	ScopeEvents // all, with the events: for people
)

// Update is what a Reader found: a Snapshot, or why there is none at the moment.
type Update struct {
	rendezvous.Snapshot
	Begun time.Time // when a read of the store began that this is the result of; zero: it came by a watch
	Err   error
}

// Reader reads and follows one job.
type Reader struct {
	Store   store.Store
	Job     schema.Job
	Node    string       // the node whose registration ScopeOwn follows
	Members *MemberCache // nil: the members of a large world are read with each of its phases
}

// Follow tells of every change in scope until ctx ends. The latest snapshot wins: a slow reader
// misses states in between, never the last one. Follow lists, watches from there, and lists again
// on any error and every 10 to 30 seconds, because a watch may go deaf without an error.
func (r Reader) Follow(ctx context.Context, scope Scope) <-chan Update {
	f := follower{Reader: r, scope: scope, out: make(chan Update, 1), ranges: r.ranges(scope)}
	go f.run(ctx)
	return f.out
}

// ReadOwn reads what ScopeOwn follows and, of a large world, the endpoints of its workers: a node reads
// before it starts them.
func (r Reader) ReadOwn(ctx context.Context) Update {
	f := follower{Reader: r, scope: ScopeOwn, ranges: r.ranges(ScopeOwn)}
	begun, of := time.Now(), r.Members.asked()
	if of != "" {
		f.ranges = append(f.ranges, store.One(r.Job.Endpoints(of)))
	}
	if err := f.list(ctx); err != nil {
		return Update{Err: err}
	}
	u := f.update(ctx, begun)
	if w := u.World; u.Err == nil && w != nil && w.Proposal == of && w.Master != nil {
		at, there := find(f.entries, r.Job.Endpoints(of))
		var endpoints []string
		if there {
			endpoints = rendezvous.ParseEndpoints(&f.entries[at])
		}
		r.Members.keepEndpoints(of, endpoints)
	}
	return u
}

// ReadJob reads what the job has one of, and the claims to it: what a node must know that joins. Of
// what there is of each node it reads the members of the world alone.
func (r Reader) ReadJob(ctx context.Context) (rendezvous.Snapshot, error) {
	read, err := r.Store.GetRanges(ctx, store.One(r.Job.Job()), store.One(r.Job.Wish()),
		store.One(r.Job.Fence()), store.One(r.Job.World()), store.One(r.Job.Head()),
		store.Below(r.Job.AllClaims()))
	if err != nil {
		return rendezvous.Snapshot{}, err
	}
	s, err := rendezvous.DecodePart(r.Job, read)
	if err == nil && s.World != nil {
		err = r.Members.fill(ctx, r.Store, r.Job, s.World)
	}
	return s, err
}

// ranges are the keys that scope needs.
func (r Reader) ranges(scope Scope) []store.Range {
	job := []store.Range{store.One(r.Job.Job()), store.One(r.Job.Fence())}
	switch scope {
	case ScopeClaims:
		return append(job, store.Below(r.Job.AllClaims()))
	case ScopeJob:
		return job
	case ScopeOwn:
		return []store.Range{store.One(r.Job.World()), store.One(r.Job.Node(r.Node))}
	}
	return []store.Range{store.Below(r.Job.Prefix())}
}

// follower is one Follow under way.
type follower struct {
	Reader
	scope  Scope
	ranges []store.Range
	many   []string // prefixes of the records that exist once for each node or checkpoint
	out    chan Update

	entries []store.Entry // in the order of their keys
	rev     int64
	cluster uint64
	due     time.Time // the next snapshot, not before
}

func (f *follower) run(ctx context.Context) {
	defer close(f.out)
	for wait := 100 * time.Millisecond; ctx.Err() == nil; {
		begun := time.Now()
		if err := f.list(ctx); err != nil {
			f.publish(Update{Err: err})
			wait = min(wait, store.Again)
			pause(ctx, wait/2+store.Jitter(wait))
			wait *= 2
			continue
		}
		s := f.update(ctx, begun)
		f.publish(s)
		if s.Err != nil {
			pause(ctx, wait/2+store.Jitter(wait))
			wait = min(2*wait, 2*time.Second)
			continue
		}
		wait = 100 * time.Millisecond
		f.watch(ctx)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// update is what the entries show now. begun is when the read began that brought them; zero: a
// watch did.
func (f *follower) update(ctx context.Context, begun time.Time) Update {
	r := store.Read{Entries: f.entries, Rev: f.rev, Cluster: f.cluster}
	if f.scope == ScopeOwn {
		s, err := f.decodeOwn(ctx, r)
		return Update{Snapshot: s, Begun: begun, Err: err}
	}
	began := time.Now()
	s, err := rendezvous.Decode(f.Job, r)
	s.Whole = f.scope == ScopeAll || f.scope == ScopeEvents
	if f.scope == ScopeEvents {
		s.Events = history.Of(f.Job, f.entries)
	}
	now := time.Now()
	f.due = now.Add(min(restFactor*now.Sub(began), maxRest))
	return Update{Snapshot: s, Begun: begun, Err: err}
}

// decodeOwn makes a partial snapshot. The members of a large world are read from plan/.
func (f *follower) decodeOwn(ctx context.Context, r store.Read) (rendezvous.Snapshot, error) {
	partial := rendezvous.Snapshot{Rev: r.Rev, Cluster: r.Cluster}
	for i := range r.Entries {
		e := &r.Entries[i]
		if e.Key != f.Job.World() {
			continue
		}
		w, err := rendezvous.DecodeWorld(e)
		if err != nil {
			return partial, err
		}
		if err := f.Members.fill(ctx, f.Store, f.Job, w); err != nil {
			return partial, err
		}
		partial.World = w
	}
	var err error
	partial.Nodes, _, _, err = membership.Decode(f.Job, r.Entries)
	return partial, err
}

// publish replaces what the reader has not taken yet. The follower is the only sender. An error
// never replaces a snapshot.
func (f *follower) publish(s Update) {
	select {
	case old := <-f.out:
		if s.Err != nil && old.Err == nil {
			s = old
		}
		if s.Begun.IsZero() {
			s.Begun = old.Begun
		}
	default:
	}
	f.out <- s
}
