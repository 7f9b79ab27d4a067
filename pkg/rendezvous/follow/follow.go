// Package follow delivers every change of a job as a snapshot.
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

// Scope says which records an agent follows. ScopeAll is for the few agents that plan. The others
// use ScopeOwn: the World and their own registration, which say all that a member must do.
type Scope int

const (
	ScopeOwn Scope = iota
	ScopeAll
	ScopeEvents // everything, with all events, for `elastic status` and the like
)

// Update is a Snapshot, or the reason why there is none now.
type Update struct {
	rendezvous.Snapshot
	Begun time.Time // when the read began that gave the snapshot; zero: a watch gave it
	Err   error
}

// Reader reads and follows one job.
type Reader struct {
	Store   store.Store
	Job     schema.Job
	Node    string       // the node whose registration ScopeOwn follows
	Members *MemberCache // nil: the members of a large world are read with each of its phases
}

// Follow delivers every change in scope until ctx ends. A slow reader misses intermediate states,
// but never the newest one. Follow lists, watches from there, and lists again after any error and
// every 10 to 30 seconds, because a watch may fall silent without an error.
func (r Reader) Follow(ctx context.Context, scope Scope) <-chan Update {
	f := follower{Reader: r, scope: scope, out: make(chan Update, 1), ranges: r.ranges(scope)}
	go f.run(ctx)
	return f.out
}

// ReadOwn reads what ScopeOwn follows and, of a large World, the endpoints of its workers. A node
// reads before it starts its workers.
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

// ReadJob reads what a node needs to join: the records that exist once. Of the records that exist for
// each node it reads only the members of the World.
func (r Reader) ReadJob(ctx context.Context) (rendezvous.Snapshot, error) {
	read, err := r.Store.GetRanges(ctx, store.One(r.Job.Job()), store.One(r.Job.Wish()),
		store.One(r.Job.Fence()), store.One(r.Job.World()), store.One(r.Job.Head()))
	if err != nil {
		return rendezvous.Snapshot{}, err
	}
	s, err := rendezvous.DecodePart(r.Job, read)
	if err == nil && s.World != nil {
		err = r.Members.fill(ctx, r.Store, r.Job, s.World)
	}
	return s, err
}

// ranges returns the keys that scope needs.
func (r Reader) ranges(scope Scope) []store.Range {
	if scope == ScopeOwn {
		return []store.Range{store.One(r.Job.World()), store.One(r.Job.Node(r.Node))}
	}
	return []store.Range{store.Below(r.Job.Prefix())}
}

// follower is one running Follow.
type follower struct {
	Reader
	scope  Scope
	ranges []store.Range
	many   []string // prefixes of the records that exist once for each node or checkpoint
	out    chan Update

	entries []store.Entry // in the order of their keys
	rev     int64
	cluster uint64
	due     time.Time // no snapshot before this time
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

// update returns the snapshot of the entries. begun is when the read of the entries began; zero:
// they came by a watch.
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
	records := membership.Decode(f.Job, r.Entries)
	partial.Nodes = records.Nodes
	return partial, records.Err()
}

// publish replaces an update that the reader has not taken yet. The follower is the only sender. An
// error never replaces a snapshot.
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
