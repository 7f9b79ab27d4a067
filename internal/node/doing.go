package node

import (
	"context"
	"sync"
	"time"

	"github.com/elasticd/elastic/internal/scope"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// doing tells the others of bytes that move for longer than a second: people see it, and the limits
// of the barrier and of a planned stop wait for it.
type doing struct {
	store store.Store
	key   string

	mu    sync.Mutex
	since time.Time // something moves since
	wrote time.Time // and was last told; zero: it was not
	now   rendezvous.Activity
	news  chan struct{}
}

func newDoing(effects *scope.Scope, store store.Store, key string) *doing {
	d := &doing{store: store, key: key, news: make(chan struct{}, 1)}
	d.tell() // nothing: what an earlier agent was at when it ended it is not at any more
	effects.Go(d.run)
	return d
}

// Moving is told how far bytes are; it never waits.
func (d *doing) Moving(what string, done, total int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if d.since.IsZero() {
		d.since = now
	}
	d.now = rendezvous.Activity{Kind: what, Done: done, Total: total, Time: now}
	if now.Sub(d.since) > time.Second && now.Sub(d.wrote) > told {
		d.wrote = now
		d.tell()
	}
}

// Unreadable tells that checkpoint number cannot be had here, until nothing is told; false: it was
// told already.
func (d *doing) Unreadable(number int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	again := d.now.Kind == "unreadable" && d.now.Done == number
	if again && time.Since(d.wrote) < told {
		return false
	}
	// Told again now and then: it says that every node that is here *now* was asked.
	d.wrote = time.Now()
	d.now = rendezvous.Activity{Kind: "unreadable", Done: number, Time: d.wrote}
	d.tell()
	return !again
}

// Nothing moves any more.
func (d *doing) Nothing() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.since, d.now = time.Time{}, rendezvous.Activity{}
	if !d.wrote.IsZero() {
		d.wrote = time.Time{}
		d.tell()
	}
}

func (d *doing) tell() {
	select {
	case d.news <- struct{}{}:
	default:
	}
}

func (d *doing) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.news:
		}
		d.mu.Lock()
		now := d.now
		d.mu.Unlock()
		w := store.Delete(d.key)
		if now.Kind != "" {
			w = store.Put(d.key, schema.Encode(now))
		}
		if _, err := d.store.Txn(ctx, store.Txn{Then: []store.Write{w}}); err != nil {
			// Others wait for what it says: what became of it since is said until that is answered.
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
				d.tell()
			}
		}
	}
}
