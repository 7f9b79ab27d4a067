package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// pace is how long a server takes for each request. It handles one request after the other.
type pace struct {
	read, write, renew time.Duration
	change             time.Duration // sent to one watch
	kilobyte           time.Duration // written, read or sent
	way                time.Duration // network time of a request and its answer, added to the work
	sync               time.Duration // of the disk, added to the work
}

// measured is an elasticd that shares two cores with its clients (docs/PERFORMANCE.md, large jobs).
var measured = pace{read: 60 * time.Microsecond, write: 100 * time.Microsecond,
	renew: 60 * time.Microsecond, change: 25 * time.Microsecond, kilobyte: 2 * time.Microsecond,
	way: 200 * time.Microsecond, sync: 500 * time.Microsecond}

// pacedServer simulates the progress of a server with its requests, and notes the largest ones.
type pacedServer struct {
	pace
	cluster *memory.Cluster
	all     string        // the prefix of a whole job
	rest    time.Duration // of those that follow it: they need as long for a snapshot

	mu         sync.Mutex // guards what follows
	idle       time.Time  // when all requests so far are done
	mostBytes  int        // of a transaction
	operations int        // most comparisons, or writes, of one
}

// takes returns how long it takes until the server has done one more piece of work.
func (p *pacedServer) takes(d time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.idle.Before(now) {
		p.idle = now
	}
	p.idle = p.idle.Add(d)
	return p.idle.Sub(now)
}

func (p *pacedServer) bytes(n int) time.Duration { return time.Duration(n) * p.kilobyte / 1000 }

// client is the store of a node.
func (p *pacedServer) client(node string) store.Store {
	c := p.cluster.Client(node)
	c.Fates(func(op memory.Op) memory.Fate {
		switch op.Kind {
		case memory.Get:
			return memory.Fate{Delay: p.way + p.takes(p.read)}
		case memory.Renew:
			return memory.Fate{Delay: p.way + p.takes(p.renew)}
		}
		return memory.Fate{Delay: p.way + p.sync + p.takes(p.write+p.bytes(p.weigh(op.Txn)))}
	})
	return paced{c, p}
}

// weigh returns the bytes of a transaction as etcd counts them, with what it needs beside keys and
// values, and notes the largest.
func (p *pacedServer) weigh(t store.Txn) int {
	const more = 32
	n := 0
	for _, g := range t.If {
		n += more + len(g.Key) + len(g.End) + len(g.Value)
	}
	for _, w := range t.Then {
		n += more + len(w.Key) + len(w.End) + len(w.Value)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mostBytes, p.operations = max(p.mostBytes, n), max(p.operations, len(t.If), len(t.Then))
	return n
}

// largest returns the most bytes, and the most comparisons or writes, of a transaction.
func (p *pacedServer) largest() (bytes, operations int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mostBytes, p.operations
}

// paced is a store whose answers and changes are delayed like those of the server.
type paced struct {
	store.Store
	server *pacedServer
}

func (s paced) Get(ctx context.Context, key, end string) (store.Read, error) {
	began := time.Now()
	r, err := s.Store.Get(ctx, key, end)
	return s.sent(ctx, began, r, err)
}

func (s paced) GetRanges(ctx context.Context, ranges ...store.Range) (store.Read, error) {
	began := time.Now()
	r, err := s.Store.GetRanges(ctx, ranges...)
	return s.sent(ctx, began, r, err)
}

// requestLimit is how long a client of etcd waits for an answer.
const requestLimit = 2 * time.Second

var errLate = errors.New("no answer in time")

// sent delays r until the server has sent it.
func (s paced) sent(ctx context.Context, began time.Time, r store.Read, err error) (store.Read, error) {
	if err != nil {
		return r, err
	}
	n := 0
	for _, e := range r.Entries {
		n += len(e.Key) + len(e.Value)
	}
	wait, left := s.server.takes(s.server.bytes(n)), requestLimit-time.Since(began)
	select {
	case <-ctx.Done():
		return store.Read{}, fmt.Errorf("%w: %w", errLate, ctx.Err())
	case <-time.After(min(wait, left)):
	}
	if wait > left {
		return store.Read{}, errLate
	}
	return r, nil
}

// longestRest is how long at most a node that follows a whole large job collects changes.
const longestRest = 50 * time.Millisecond

// Watch reports the changes that arrive while it works, or rests, as one update.
func (s paced) Watch(ctx context.Context, key, end string, from int64) <-chan store.Change {
	s.server.takes(s.server.read)
	var rest time.Duration
	if key == s.server.all {
		rest = min(s.server.rest, longestRest)
	}
	out := make(chan store.Change)
	in := s.Store.Watch(ctx, key, end, from)
	go func() { // ends with the watch that it passes on
		defer close(out)
		for n := range in {
			due := time.After(max(rest, s.cost(n)))
			for sent := false; !sent; {
				select {
				case more, ok := <-in:
					if sent = !ok; ok {
						s.cost(more)
						n = store.Change{Rev: more.Rev, Events: append(n.Events, more.Events...),
							Err: more.Err}
					}
				case <-due:
					sent = true
				case <-ctx.Done():
					sent = true
				}
			}
			select {
			case out <- n:
			case <-ctx.Done():
			}
		}
	}()
	return out
}

// cost is how long it takes until the server has sent n.
func (s paced) cost(n store.Change) time.Duration {
	bytes := 0
	for _, e := range n.Events {
		bytes += len(e.Key) + len(e.Value)
	}
	return s.server.takes(s.server.change + s.server.bytes(bytes))
}
