package saves

// This file tells the other nodes which bytes this one moves.

import (
	"context"
	"sync"
	"time"

	"github.com/elasticd/elastic/internal/scope"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

const (
	// every is how often the store is written at most.
	every = 2 * time.Second
	// movesFor is how long a node that moved bytes counts as one that moves them.
	movesFor = 30 * time.Second
)

// Doing reports to the other nodes that this node moves bytes, once that takes more than a
// second. `elastic status` shows the report. The limits of the barrier and of a planned stop are
// extended by it.
type Doing struct {
	store store.Store
	key   string

	mu    sync.Mutex
	since time.Time // when the current move began; zero: nothing moves
	wrote time.Time // when the last report was sent; zero: there is no report in the store
	now   rendezvous.Activity
	news  chan struct{}
}

// NewDoing starts to report at key. It removes the report of an earlier agent of this node.
func NewDoing(effects *scope.Scope, store store.Store, key string) *Doing {
	d := &Doing{store: store, key: key, news: make(chan struct{}, 1)}
	d.tell() // writes that nothing moves: an earlier agent may have left a report
	effects.Go(d.run)
	return d
}

// Moving reports done of total bytes. It never blocks.
func (d *Doing) Moving(what string, done, total int64) {
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

// Unreadable reports that this node cannot get checkpoint number from any node. The report stands
// until the next one. since is the store revision at which the list of nodes was read, or 0. The
// result is false if the same report was sent before.
func (d *Doing) Unreadable(number, since int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	again := d.now.Kind == "unreadable" && d.now.Done == number
	if again && time.Since(d.wrote) < every {
		return false
	}
	// The report is repeated, because it covers only the nodes that were registered when it was
	// sent.
	d.wrote = time.Now()
	d.now = rendezvous.Activity{Kind: "unreadable", Done: number, Time: d.wrote, Since: since}
	d.tell()
	return !again
}

// Blocked reports why this node is not ready for its generation. The report stands until the next one.
// A node that fetches tries again: bytes that moved lately keep the barrier waiting, so that report stands.
func (d *Doing) Blocked(why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	moves := !d.since.IsZero() && time.Since(d.now.Time) < movesFor
	if moves || d.now.Kind == "blocked" && (d.now.Text == why || time.Since(d.wrote) < every) {
		return
	}
	d.since, d.wrote = time.Time{}, time.Now()
	d.now = rendezvous.Activity{Kind: "blocked", Text: why, Time: d.wrote}
	d.tell()
}

// Nothing reports that no bytes move any more.
func (d *Doing) Nothing() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.since, d.now = time.Time{}, rendezvous.Activity{}
	if !d.wrote.IsZero() {
		d.wrote = time.Time{}
		d.tell()
	}
}

// tell makes run write the newest report.
func (d *Doing) tell() {
	select {
	case d.news <- struct{}{}:
	default:
	}
}

// run writes reports to the store until ctx ends.
func (d *Doing) run(ctx context.Context) {
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
			// Other nodes wait for as long as an old report stands, so the newest state is written
			// again.
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
				d.tell()
			}
		}
	}
}
