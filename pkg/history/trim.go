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
	// Kept is the number of transactions whose events a job keeps at least.
	Kept = 1000
	// TrimEvery is the number of transactions between two trims of a writer. A trim reads all
	// events, so it must not be frequent.
	TrimEvery = 100
)

// Trim deletes the oldest events of a job, and keeps the newest Kept. The next trim deletes what
// this one cannot. Two trims at the same time do no harm.
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
