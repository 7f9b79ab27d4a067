package rendezvous

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Scope is what an agent follows of its job. All is for the few who plan; Own, the world and the
// own registration, for everybody else: in it stands all that a member must ever do.
type Scope int

const (
	ScopeOwn Scope = iota
	ScopeAll
	ScopeClaims // while the store does not hold the job: whether it does again, and the claims to it
	ScopeJob    // likewise, for those who leave the claims to others
	ScopeEvents // all, with the events: for people
)

// Update is what Follow found: a Snapshot, or why there is none at the moment.
type Update struct {
	Snapshot
	Begun time.Time // when a read of the store began that this is the result of; zero: it came by a watch
	Err   error
}

// Follow tells of every change in scope until ctx ends, as snapshots; latest wins: a slow reader
// misses states in between, never the last one. It lists, watches from there, and lists again on
// any error and every 10 to 30 seconds, because a watch may go deaf without an error.
func Follow(ctx context.Context, st store.Store, job schema.Job, node string, scope Scope,
	known *MemberCache) <-chan Update {
	f := follower{known: known, st: st, job: job, scope: scope, out: make(chan Update, 1)}
	switch scope {
	case ScopeAll, ScopeEvents:
		f.ranges = []span{{job.Prefix(), store.End(job.Prefix())}}
	case ScopeClaims:
		f.ranges = []span{{job.Job(), ""}, {job.AllClaims(), store.End(job.AllClaims())}}
	case ScopeJob:
		f.ranges = []span{{job.Job(), ""}}
	case ScopeOwn:
		f.ranges = []span{{job.World(), ""}, {job.Node(node), ""}}
	}
	go f.run(ctx)
	return f.out
}

// ReadOwn reads what scope Own follows.
func ReadOwn(ctx context.Context, st store.Store, job schema.Job, node string, known *MemberCache) Update {
	f := follower{known: known, st: st, job: job, scope: ScopeOwn,
		ranges: []span{{job.World(), ""}, {job.Node(node), ""}}}
	begun := time.Now()
	if err := f.list(ctx); err != nil {
		return Update{Err: err}
	}
	return f.seen(ctx, begun)
}

type span struct{ from, end string }

type follower struct {
	known  *MemberCache
	st     store.Store
	job    schema.Job
	scope  Scope
	ranges []span
	out    chan Update

	entries []store.Entry // in the order of their keys
	rev     int64
	cluster uint64
	due     time.Time // the next snapshot, not before
}

// A snapshot of a thousand nodes takes as long as many changes come in, and who reads it needs as
// long again: after each, changes are gathered for so many times what it took, and not for longer
// than anybody would notice.
const (
	rests    = 3
	mostRest = 50 * time.Millisecond
)

func (f *follower) run(ctx context.Context) {
	defer close(f.out)
	for wait := 100 * time.Millisecond; ctx.Err() == nil; {
		begun := time.Now()
		if err := f.list(ctx); err != nil {
			f.tell(Update{Err: err})
			pause(ctx, wait/2+store.Jitter(wait))
			wait = min(2*wait, 2*time.Second)
			continue
		}
		s := f.seen(ctx, begun)
		f.tell(s)
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

// list reads every range anew. With several ranges the revision is the oldest of the reads.
func (f *follower) list(ctx context.Context) error {
	before := f.entries
	f.entries, f.rev = nil, 0
	for _, r := range f.ranges {
		res, err := f.st.Get(ctx, r.from, r.end)
		if err != nil {
			return err
		}
		for _, e := range res.Entries {
			if f.skip(e.Key) {
				continue
			}
			e.Memo = f.memo(e.Key)
			if at, ok := find(before, e.Key); ok && before[at].Rev == e.Rev && bytes.Equal(before[at].Value, e.Value) { // revisions of another cluster mean nothing here
				e.Memo = before[at].Memo
			}
			f.entries = append(f.entries, e)
		}
		if f.rev == 0 || res.Rev < f.rev {
			f.rev = res.Rev
		}
		f.cluster = res.Cluster
	}
	slices.SortFunc(f.entries, func(a, b store.Entry) int { return strings.Compare(a.Key, b.Key) })
	return nil
}

// find is where an entry is, or belongs.
func find(sorted []store.Entry, key string) (int, bool) {
	return slices.BinarySearchFunc(sorted, key,
		func(e store.Entry, key string) int { return strings.Compare(e.Key, key) })
}

// skip: events are many, and nothing is decided by them, but that what was told is not told again.
func (f *follower) skip(key string) bool {
	return f.scope != ScopeEvents && strings.HasPrefix(key, f.job.Events()) && !strings.HasPrefix(key, f.job.Event(MissedEvent))
}

// memo remembers what a record says of which there is one for each node: with each change of one of
// them all are in the next snapshot. Nothing of these is ever changed by who has a snapshot.
func (f *follower) memo(key string) *store.Memo {
	for _, prefix := range []string{f.job.Nodes(), f.job.AllLeft(), f.job.AllReady(), f.job.AllExits(), f.job.AllHeld(),
		f.job.AllSuspects()} {
		if strings.HasPrefix(key, prefix) {
			return new(store.Memo)
		}
	}
	return nil
}

// watch applies changes until one of the watches ends or it is time to list again.
func (f *follower) watch(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second+store.Jitter(20*time.Second))
	defer cancel()
	changes := f.st.Watch(ctx, f.ranges[0].from, f.ranges[0].end, f.rev+1)
	if len(f.ranges) > 1 {
		changes = merge(ctx, changes, f.st.Watch(ctx, f.ranges[1].from, f.ranges[1].end, f.rev+1))
	}
	for c := range changes {
		moved, err := f.gather(c, changes)
		if err != nil {
			return
		}
		if moved {
			s := f.seen(ctx, time.Time{})
			f.tell(s)
			if s.Err != nil {
				return // nobody would tell of this world again: it is listed
			}
		}
	}
}

// gather applies a change and all that come before the next snapshot is due: they are one snapshot.
func (f *follower) gather(c store.Change, changes <-chan store.Change) (moved bool, err error) {
	var due <-chan time.Time // nil: now
	if wait := time.Until(f.due); wait > 0 {
		due = time.After(wait)
	}
	for {
		moved = f.apply(c) || moved
		if c.Err != nil {
			return moved, c.Err
		}
		var ok bool
		select {
		case c, ok = <-changes:
		default:
			if due == nil {
				return moved, nil
			}
			select {
			case c, ok = <-changes:
			case <-due:
				return moved, nil
			}
		}
		if !ok {
			return moved, nil
		}
	}
}

// merge ends when either ends.
func merge(ctx context.Context, a, b <-chan store.Change) <-chan store.Change {
	out := make(chan store.Change)
	go func() {
		defer close(out)
		for {
			var c store.Change
			var ok bool
			select {
			case c, ok = <-a:
			case c, ok = <-b:
			}
			if !ok {
				return
			}
			select {
			case out <- c:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

func (f *follower) apply(c store.Change) bool {
	moved := false
	for _, e := range c.Events {
		if f.skip(e.Key) {
			continue
		}
		moved = true
		at, there := find(f.entries, e.Key)
		if there && f.entries[at].Rev > e.Rev {
			continue
		}
		e.Memo = f.memo(e.Key)
		switch {
		case there && e.Deleted:
			f.entries = slices.Delete(f.entries, at, at+1)
		case there:
			f.entries[at] = e.Entry
		case !e.Deleted:
			f.entries = slices.Insert(f.entries, at, e.Entry)
		}
	}
	f.rev = max(f.rev, c.Rev)
	return moved
}

func (f *follower) seen(ctx context.Context, begun time.Time) Update {
	r := store.Read{Entries: f.entries, Rev: f.rev, Cluster: f.cluster}
	if f.scope != ScopeOwn {
		began := time.Now()
		s, err := Decode(f.job, r)
		s.Whole = f.scope == ScopeAll || f.scope == ScopeEvents
		if f.scope == ScopeEvents {
			s.Events = history.Of(f.job, f.entries)
		}
		now := time.Now()
		f.due = now.Add(min(rests*now.Sub(began), mostRest))
		return Update{Snapshot: s, Begun: begun, Err: err}
	}
	s, err := decodeOwn(ctx, f.st, f.job, r, f.known)
	return Update{Snapshot: s, Begun: begun, Err: err}
}

// decodeOwn makes a partial snapshot; the members of a large world are read from plan/.
func decodeOwn(ctx context.Context, st store.Store, job schema.Job, r store.Read, known *MemberCache) (Snapshot,
	error) {
	partial := Snapshot{Rev: r.Rev, Cluster: r.Cluster}
	for i := range r.Entries {
		e := &r.Entries[i]
		if e.Key != job.World() {
			continue
		}
		w, err := DecodeWorld(e)
		if err != nil {
			return partial, err
		}
		if err := known.fill(ctx, st, job, w); err != nil {
			return partial, err
		}
		partial.World = w
	}
	var err error
	partial.Nodes, _, _, err = membership.Decode(job, r.Entries)
	return partial, err
}

// tell replaces what the reader has not taken yet. The follower is the only sender. An error never
// replaces a snapshot.
func (f *follower) tell(s Update) {
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
