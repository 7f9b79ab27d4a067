// Package activity tells the other nodes which bytes this one moves.
package activity

import (
	"context"
	"sync"
	"time"

	"github.com/elasticd/elastic/internal/scope"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// every is how often the store is written at most.
const every = 2 * time.Second

// Activity tells the others of bytes that move for longer than a second: people see it, and the limits
// of the barrier and of a planned stop wait for it.
type Activity struct {
	store store.Store
	key   string

	mu    sync.Mutex
	since time.Time // something moves since
	wrote time.Time // and was last reported; zero: it was not
	now   rendezvous.Activity
	news  chan struct{}
}

// New begins to report at key. Reports of an earlier agent of this node are removed.
func New(effects *scope.Scope, store store.Store, key string) *Activity {
	d := &Activity{store: store, key: key, news: make(chan struct{}, 1)}
	d.tell() // nothing: what an earlier agent was at when it ended it is not at any more
	effects.Go(d.run)
	return d
}

// Moving reports how far bytes are; it never waits.
func (d *Activity) Moving(what string, done, total int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if d.since.IsZero() {
		d.since = now
	}
	d.now = rendezvous.Activity{Kind: what, Done: done, Total: total, Time: now}
	if now.Sub(d.since) > time.Second && now.Sub(d.wrote) > every {
		d.wrote = now
		d.tell()
	}
}

// Unreadable reports that checkpoint number cannot be had here, until another report. The nodes that
// were asked were read at revision since, if it is not 0. false: it was reported already.
func (d *Activity) Unreadable(number, since int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	again := d.now.Kind == "unreadable" && d.now.Done == number
	if again && time.Since(d.wrote) < every {
		return false
	}
	// Reported again now and then: it says that every node that was here *then* was asked.
	d.wrote = time.Now()
	d.now = rendezvous.Activity{Kind: "unreadable", Done: number, Time: d.wrote, Since: since}
	d.tell()
	return !again
}

// Nothing moves any more.
func (d *Activity) Nothing() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.since, d.now = time.Time{}, rendezvous.Activity{}
	if !d.wrote.IsZero() {
		d.wrote = time.Time{}
		d.tell()
	}
}

func (d *Activity) tell() {
	select {
	case d.news <- struct{}{}:
	default:
	}
}

func (d *Activity) run(ctx context.Context) {
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
