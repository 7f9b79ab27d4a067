package follow

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/store"
)

// list reads every range anew.
func (f *follower) list(ctx context.Context) error {
	before := f.entries
	f.entries, f.rev = nil, 0
	res, err := f.Store.GetRanges(ctx, f.ranges...)
	if err != nil {
		return err
	}
	for _, e := range res.Entries {
		if f.skip(e.Key) {
			continue
		}
		if e.Memo == nil {
			e.Memo = f.memo(e.Key)
		}
		// Values are compared too, because the revisions of another cluster mean nothing here.
		at, known := find(before, e.Key)
		if known && before[at].Rev == e.Rev && bytes.Equal(before[at].Value, e.Value) {
			e.Memo = before[at].Memo
		}
		f.entries = append(f.entries, e)
	}
	f.rev, f.cluster = res.Rev, res.Cluster
	slices.SortFunc(f.entries, func(a, b store.Entry) int { return strings.Compare(a.Key, b.Key) })
	return nil
}

// find returns the index of the entry of key, or where it belongs.
func find(sorted []store.Entry, key string) (int, bool) {
	return slices.BinarySearchFunc(sorted, key,
		func(e store.Entry, key string) int { return strings.Compare(e.Key, key) })
}

// skip reports whether the record of key is not needed. A job has many events, and no decision
// needs them, except those that report lost nodes: a loss must not be reported twice.
func (f *follower) skip(key string) bool {
	return f.scope != ScopeEvents && strings.HasPrefix(key, f.Job.Events()) &&
		!strings.HasPrefix(key, f.Job.Event(rendezvous.MissedEvent))
}

// memo returns a place for the decoded form of a record that exists for each node or checkpoint, or
// of a list of members. When one of them changes, the next snapshot has all of them again. A reader
// of a snapshot must not change them.
func (f *follower) memo(key string) *store.Memo {
	if f.many == nil {
		f.many = []string{f.Job.Nodes(), f.Job.AllLeft(), f.Job.AllReady(), f.Job.AllExits(), f.Job.AllHeld(),
			f.Job.AllSuspects(), f.Job.Checkpoints(), f.Job.AllPlans()}
	}
	for _, prefix := range f.many {
		if strings.HasPrefix(key, prefix) {
			return new(store.Memo)
		}
	}
	return nil
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
		if e.Memo == nil {
			e.Memo = f.memo(e.Key)
		}
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
