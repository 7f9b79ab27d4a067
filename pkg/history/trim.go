package history

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

const (
	// Kept is how many transactions' events a job keeps at least.
	Kept = 1000
	// TrimEvery is how many transactions a writer tells of between two trims. A trim reads all
	// events, so that each of these transactions pays for the reading of a few.
	TrimEvery = 100
)

// Trim deletes the oldest events of a job but for the newest Kept. What it cannot delete is deleted
// by the next trim; losing a race against another one is harmless.
func Trim(ctx context.Context, s store.Store, job schema.Job) error {
	r, err := s.Get(ctx, job.Events(), store.End(job.Events()))
	if err != nil {
		return fmt.Errorf("trim events: %w", err)
	}
	slices.SortFunc(r.Entries, func(a, b store.Entry) int { return int(a.Rev - b.Rev) })
	for old := range slices.Chunk(r.Entries[:max(0, len(r.Entries)-Kept)], store.MaxOps) {
		var t store.Txn
		for _, e := range old {
			t.Then = append(t.Then, store.Delete(e.Key))
		}
		if _, err := s.Txn(ctx, t); err != nil {
			return fmt.Errorf("trim events: %w", err)
		}
	}
	return nil
}

// Trimmer trims the events of a job as often as the transactions of one writer need it, within one
// generation too.
type Trimmer struct {
	Store store.Store
	Job   schema.Job

	mu      sync.Mutex
	written int
}

// Wrote counts n transactions that wrote an event, and trims when it is time. An error means
// that the next trim has more to delete.
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
