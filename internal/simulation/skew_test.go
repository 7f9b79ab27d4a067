package simulation

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// skewed is the store as an agent sees it whose wall clock is ahead. All agents of a simulation
// share one clock, so the times that this agent writes are moved ahead, and those that it reads are
// moved back: its own are right for it, and those of others an hour off. Setting the clock later
// also moves earlier times, except in values that the agent compares with what it wrote.
type skewed struct {
	store.Store
	ahead  time.Duration
	jumped *atomic.Int64
	wrote  *sync.Map // by key: written
}

// written is a value that the agent wrote, and as it is in the store.
type written struct{ value, moved string }

// by is how far the clock is ahead now.
func (s skewed) by() time.Duration { return s.ahead + time.Duration(s.jumped.Load()) }

// skew returns st as an agent sees it whose wall clock is ahead. jumped is how far it is set ahead
// later; nil: never.
func skew(st store.Store, ahead time.Duration, jumped *atomic.Int64) store.Store {
	if ahead == 0 && jumped == nil {
		return st
	}
	if jumped == nil {
		jumped = new(atomic.Int64)
	}
	return skewed{st, ahead, jumped, new(sync.Map)}
}

var stamp = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"`)

// moved is a value with every time in it moved by d.
func moved(v []byte, d time.Duration) []byte {
	if v == nil {
		return nil
	}
	return stamp.ReplaceAllFunc(v, func(old []byte) []byte {
		at, err := time.Parse(time.RFC3339Nano, string(old[1:len(old)-1]))
		if err != nil || at.IsZero() {
			return old
		}
		return []byte(at.Add(d).Format(`"` + time.RFC3339Nano + `"`))
	})
}

func (s skewed) Get(ctx context.Context, key, end string) (store.Read, error) {
	r, err := s.Store.Get(ctx, key, end)
	if s.by() == 0 {
		return r, err
	}
	for i := range r.Entries {
		r.Entries[i].Value, r.Entries[i].Memo = moved(r.Entries[i].Value, -s.by()), nil
	}
	return r, err
}

func (s skewed) GetRanges(ctx context.Context, ranges ...store.Range) (store.Read, error) {
	r, err := s.Store.GetRanges(ctx, ranges...)
	if s.by() == 0 {
		return r, err
	}
	for i := range r.Entries {
		r.Entries[i].Value, r.Entries[i].Memo = moved(r.Entries[i].Value, -s.by()), nil
	}
	return r, err
}

func (s skewed) Txn(ctx context.Context, t store.Txn) (store.TxnResult, error) {
	t.If, t.Then = slices.Clone(t.If), slices.Clone(t.Then)
	for i := range t.If {
		g := &t.If[i]
		if v, ok := s.wrote.Load(g.Key); ok && g.What == store.ValueIs && v.(written).value == g.Value {
			g.Value = v.(written).moved
		}
	}
	for i := range t.Then {
		w := &t.Then[i]
		own := string(w.Value)
		w.Value = moved(w.Value, s.by())
		s.wrote.Store(w.Key, written{own, string(w.Value)})
	}
	r, err := s.Store.Txn(ctx, t)
	if r.Else != nil {
		own := *r.Else
		own.Value, own.Memo = moved(own.Value, -s.by()), nil
		r.Else = &own
	}
	return r, err
}

func (s skewed) Watch(ctx context.Context, key, end string, from int64) <-chan store.Change {
	out := make(chan store.Change)
	go func() {
		defer close(out)
		for c := range s.Store.Watch(ctx, key, end, from) {
			if s.by() == 0 {
				select {
				case out <- c:
				case <-ctx.Done():
				}
				continue
			}
			events := make([]store.Event, len(c.Events))
			for i, e := range c.Events {
				e.Value, e.Memo = moved(e.Value, -s.by()), nil
				events[i] = e
			}
			c.Events = events
			select {
			case out <- c:
			case <-ctx.Done():
			}
		}
	}()
	return out
}

func TestSkewed(t *testing.T) {
	c := memory.New()
	right, ahead := c.Client("a"), skew(c.Client("b"), time.Hour, new(atomic.Int64))
	noon := []byte(`{"time":"2026-11-21T12:00:00.5Z"}`)
	once := store.Request{If: []store.Guard{store.Absent("/k")}, Then: []store.Write{store.Put("/k", noon)}}
	if _, err := store.Send(t.Context(), ahead, once); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Send(t.Context(), ahead, once); err != nil {
		t.Errorf("it does not know its own value again: %v", err)
	}
	if _, err := store.Send(t.Context(), right, once); !errors.Is(err, store.ErrMoved) {
		t.Errorf("the other takes it for its own: %v", err)
	}
	jumped := new(atomic.Int64)
	set := skew(c.Client("c"), time.Hour, jumped)
	if _, err := set.Txn(t.Context(), store.Txn{Then: []store.Write{store.Put("/l", noon)}}); err != nil {
		t.Fatal(err)
	}
	jumped.Add(int64(time.Hour))
	same := []store.Guard{{Key: "/l", What: store.ValueIs, Value: string(noon)}}
	if r, err := set.Txn(t.Context(), store.Txn{If: same}); err != nil || !r.OK {
		t.Errorf("its clock was set, and it does not know the value that it wrote: %+v, %v", r, err)
	}
	for want, s := range map[string]store.Store{
		string(noon): ahead, `{"time":"2026-11-21T13:00:00.5Z"}`: right,
	} {
		r, err := s.Get(t.Context(), "/k", "")
		if err != nil || !bytes.Equal(r.One().Value, []byte(want)) {
			t.Errorf("%s, %v; want %s", r.One().Value, err, want)
		}
		if seen := <-s.Watch(t.Context(), "/k", "", 1); len(seen.Events) != 1 ||
			string(seen.Events[0].Value) != want {
			t.Errorf("watched %+v, want %s", seen, want)
		}
	}
}
