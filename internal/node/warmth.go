package node

// This file reports how many warm workers a node has.

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

// lookAgain is how often the memory of warm workers is measured.
const lookAgain = time.Minute

// warmCount writes the number of warm workers of this node and their memory to the store, for the user.
type warmCount struct {
	store   store.Store
	key     string
	standBy func() (n int, bytes int64)
	news    chan struct{}

	mu      sync.Mutex
	waiting []int // processes of workers that wait for their first world
}

// newWarmCount returns a warmCount that writes to a key. standBy counts the warm workers for the next start.
// Nothing is written before Run.
func newWarmCount(store store.Store, key string, standBy func() (n int, bytes int64)) *warmCount {
	return &warmCount{store: store, key: key, standBy: standBy, news: make(chan struct{}, 1)}
}

// Waits records the workers that wait for their first world; nil: none.
func (c *warmCount) Waits(pids []int) {
	c.mu.Lock()
	c.waiting = pids
	c.mu.Unlock()
	c.Changed()
}

// count counts the warm workers and measures their memory.
func (c *warmCount) count() (all rendezvous.WarmWorkers) {
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

// Changed tells Run that the number of warm workers may have changed. It never blocks.
func (c *warmCount) Changed() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// Run reports the count until ctx ends. If a report fails, the next one replaces it.
func (c *warmCount) Run(ctx context.Context) {
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	reported := rendezvous.WarmWorkers{Count: -1} // replaces the report of an earlier agent
	for {
		if now := c.count(); !similar(now, reported) && c.tell(ctx, now) == nil {
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

// tell writes a count to the store.
func (c *warmCount) tell(ctx context.Context, now rendezvous.WarmWorkers) error {
	w := store.Delete(c.key)
	if now.Count > 0 {
		w = store.Put(c.key, schema.Encode(now))
	}
	_, err := c.store.Txn(ctx, store.Txn{Then: []store.Write{w}})
	return err
}

// similar reports whether two counts look the same to the user: their memory may differ by a tenth.
func similar(a, b rendezvous.WarmWorkers) bool {
	differs := a.Bytes - b.Bytes
	return a.Count == b.Count && max(differs, -differs) <= b.Bytes/10
}
