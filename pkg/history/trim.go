package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

const (
	// Kept is the number of transactions whose events a job keeps at least. Saves are not counted,
	// because a job makes thousands of them, and what else happened would be lost.
	Kept = 1000
	// KeptSaves is the number of transactions kept that only committed or deleted checkpoints.
	KeptSaves = 500
	// TrimEvery is the number of transactions between two trims of a writer. A trim reads all
	// events, so it must not be frequent.
	TrimEvery = 100
)

// Trim deletes the oldest events of a job, and keeps the newest Kept and KeptSaves. The next trim
// deletes what this one cannot. Two trims at the same time do no harm.
func Trim(ctx context.Context, s store.Store, job schema.Job) error {
	r, err := s.Get(ctx, job.Events(), store.End(job.Events()))
	if err != nil {
		return fmt.Errorf("trim events: %w", err)
	}
	for old := range slices.Chunk(outdated(r.Entries), store.MaxOps) {
		var t store.Txn
		for _, key := range old {
			t.Then = append(t.Then, store.Delete(key))
		}
		if _, err := s.Txn(ctx, t); err != nil {
			return fmt.Errorf("trim events: %w", err)
		}
	}
	return nil
}

// outdated returns the keys of the events that are too many.
func outdated(entries []store.Entry) (keys []string) {
	slices.SortFunc(entries, func(a, b store.Entry) int { return cmp.Compare(b.Rev, a.Rev) })
	saves, others := 0, 0
	for i := range entries {
		count, most := &others, Kept
		if onlySaves(&entries[i]) {
			count, most = &saves, KeptSaves
		}
		if *count++; *count > most {
			keys = append(keys, entries[i].Key)
		}
	}
	return keys
}

// onlySaves reports whether a transaction only committed or deleted checkpoints.
func onlySaves(e *store.Entry) bool {
	events, err := Decode(e)
	return err == nil && !slices.ContainsFunc(events,
		func(e Event) bool { return e.Kind != Committed && e.Kind != Deleted })
}

// Trimmer trims the events of a job once per TrimEvery transactions of one writer.
type Trimmer struct {
	Store store.Store
	Job   schema.Job

	mu      sync.Mutex
	written int
}

// Wrote counts n transactions with events, and trims if it is time. After an error the next trim
// has more to delete.
func (t *Trimmer) Wrote(ctx context.Context, n int) error {
	t.mu.Lock()
	t.written += n
	due := t.written >= TrimEvery
	if due {
		t.written = 0
	}
	t.mu.Unlock()
	if !due {
		return nil
	}
	return Trim(ctx, t.Store, t.Job)
}
