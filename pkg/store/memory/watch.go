package memory

import (
	"context"
	"hash/fnv"
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/store"
)

// signs is the interval between signs of life of a watch without changes.
const signs = 2 * time.Second

// watch queues changes for its consumer. Its goroutine, which ends with the consumer's context,
// delivers them one by one.
type watch struct {
	client     *Client
	key, until string
	from       int64
	out        chan store.Change
	wake       chan struct{} // holds one token when there may be something to do

	delay   time.Duration  // between a change and its delivery
	pending []store.Change // guarded by the cluster's mu
	ended   bool           // guarded by the cluster's mu
}

// Watch, see store.Store.
func (cl *Client) Watch(ctx context.Context, key, end string, from int64) <-chan store.Change {
	c := cl.c
	w := &watch{client: cl, key: key, until: end, from: max(from, 1), out: make(chan store.Change),
		wake: make(chan struct{}, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.from < c.compacted || w.from > c.rev+1 {
		w.end(store.ErrCompacted)
	}
	for _, h := range c.since(w.from) {
		w.add(h)
	}
	if c.spread {
		w.delay = ownDelay(cl.name, key, end)
	}
	c.watches = append(c.watches, w)
	go w.run(ctx)
	return w.out
}

// ownDelay returns some nanoseconds, different for almost every watch.
func ownDelay(words ...string) time.Duration {
	h := fnv.New32a()
	for _, w := range words {
		h.Write([]byte(w + "\x00"))
	}
	return 10 + time.Duration(h.Sum32()%5000)
}

func (w *watch) run(ctx context.Context) {
	defer close(w.out)
	defer w.close()
	idle := time.NewTimer(signs)
	defer idle.Stop()
	for {
		n, ok := w.next()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-w.wake:
				continue
			case <-idle.C:
				idle.Reset(signs)
				if n, ok = w.sign(); !ok {
					continue
				}
			}
		}
		if w.delay > 0 {
			select {
			case <-time.After(w.delay):
			case <-ctx.Done():
				return
			}
		}
		select {
		case w.out <- n:
		case <-ctx.Done():
			return
		}
		if n.Err != nil {
			return
		}
		idle.Reset(signs)
	}
}

// add queues the part of a change that lies in the range.
func (w *watch) add(n store.Change) {
	if w.ended || n.Rev < w.from {
		return
	}
	mine := store.Change{Rev: n.Rev}
	for i, e := range n.Events {
		if !inside(e.Key, w.key, w.until) {
			continue
		}
		if mine.Events == nil {
			mine.Events = make([]store.Event, 0, len(n.Events)-i)
		}
		mine.Events = append(mine.Events, e)
	}
	if mine.Events != nil {
		w.pending = append(w.pending, mine)
		w.rouse()
	}
}

// end makes err the next and last delivery.
func (w *watch) end(err error) {
	if !w.ended {
		w.ended, w.pending = true, []store.Change{{Err: err}}
		w.rouse()
	}
}

func (w *watch) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watch) next() (store.Change, bool) {
	c := w.client.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(w.pending) == 0 || w.client.deafened() {
		return store.Change{}, false
	}
	n := w.pending[0]
	w.pending = w.pending[1:]
	return n, true
}

func (w *watch) sign() (store.Change, bool) {
	c := w.client.c
	c.mu.Lock()
	defer c.mu.Unlock()
	return store.Change{Rev: c.rev}, len(w.pending) == 0 && !w.client.deafened()
}

func (w *watch) close() {
	c := w.client.c
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.watches, w)
	c.watches = slices.Delete(c.watches, i, i+1)
}

// wakeWatches lets every watch look again whether it may deliver.
func (c *Cluster) wakeWatches() {
	for _, w := range c.watches {
		w.rouse()
	}
}
