// Package warmth tells how many processes of a node wait to be its next workers.
package warmth

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/elasticd/elastic/internal/worker/proc"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// lookAgain is how often the memory of processes that wait is looked at.
const lookAgain = time.Minute

// Count tells the others, for people, how many processes wait here to be workers, and their memory.
type Count struct {
	store   store.Store
	key     string
	standBy func() (n int, bytes int64)
	news    chan struct{}

	mu      sync.Mutex
	waiting []int // workers that wait for their first world
}

// New makes one that writes to a key. standBy counts the processes that wait for the next start.
// Nothing is reported before Run.
func New(store store.Store, key string, standBy func() (n int, bytes int64)) *Count {
	return &Count{store: store, key: key, standBy: standBy, news: make(chan struct{}, 1)}
}

// Waits notes the workers that wait for their first world; nil: none do any more.
func (c *Count) Waits(pids []int) {
	c.mu.Lock()
	c.waiting = pids
	c.mu.Unlock()
	c.Changed()
}

func (c *Count) count() (all rendezvous.WarmWorkers) {
	all.Count, all.Bytes = c.standBy()
	c.mu.Lock()
	pids := c.waiting
	c.mu.Unlock()
	if len(pids) > 0 {
		all.Count += len(pids)
		all.Bytes += proc.ResidentBelow(func(p proc.Process) bool { return slices.Contains(pids, p.PID) })
	}
	return all
}

// Changed says that others wait than before, or none. It never waits.
func (c *Count) Changed() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// Run reports the count until ctx ends. After a report that failed the next look reports again.
func (c *Count) Run(ctx context.Context) {
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	reported := rendezvous.WarmWorkers{Count: -1} // the report of an earlier agent holds no more
	for {
		if now := c.count(); !alike(now, reported) && c.tell(ctx, now) == nil {
			reported = now
		}
		select {
		case <-ctx.Done():
			return
		case <-c.news:
		case <-again.C:
		}
	}
}

func (c *Count) tell(ctx context.Context, now rendezvous.WarmWorkers) error {
	w := store.Delete(c.key)
	if now.Count > 0 {
		w = store.Put(c.key, schema.Encode(now))
	}
	_, err := c.store.Txn(ctx, store.Txn{Then: []store.Write{w}})
	return err
}

// alike reports whether two counts are the same to a reader: the memory by a tenth.
func alike(a, b rendezvous.WarmWorkers) bool {
	differs := a.Bytes - b.Bytes
	return a.Count == b.Count && max(differs, -differs) <= b.Bytes/10
}
