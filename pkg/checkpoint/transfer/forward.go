package transfer

import (
	"context"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/membership"
)

// Forward sends the chunks of a save to other nodes while the save is still copied into this node's
// store. It only saves time: a node that fails gets no more chunks, and Replicate sends the missing
// ones.
type Forward struct {
	copier *Copier
	at     manifest.Position
	done   sync.WaitGroup

	mu     sync.Mutex
	more   *sync.Cond // signals a change of queues or closed, or the end of a node's context
	queues []*queue   // one per node
	closed bool
}

// queue has the chunks that one node still needs.
type queue struct {
	chunks []*forwarded // guarded by the mu of the Forward
	failed bool         // guarded too: the node gets no more chunks
}

// forwarded is a chunk that is in the store, and maybe also in memory.
type forwarded struct {
	chunk *chunkstore.LentChunk
	nodes atomic.Int32 // nodes that still need it
}

// sent records that one node has the chunk, or will not get it from here.
func (c *forwarded) sent() {
	if c.nodes.Add(-1) == 0 {
		c.chunk.Return()
	}
}

// Forward starts to send the chunks of Add to the nodes of to, until Close or the end of ctx. at is
// the position of the save.
func (c *Copier) Forward(ctx context.Context, at manifest.Position, to []membership.Node) *Forward {
	f := &Forward{copier: c, at: at}
	f.more = sync.NewCond(&f.mu)
	for _, n := range to {
		q := &queue{}
		f.queues = append(f.queues, q)
		f.done.Go(func() { f.send(ctx, n.Ref, q) })
	}
	return f
}

// Add sends a chunk that is in the store, and returns it to its lender when it is sent. It does not
// block.
func (f *Forward) Add(l *chunkstore.LentChunk) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &forwarded{chunk: l}
	c.nodes.Store(1) // for this function
	defer c.sent()
	for _, q := range f.queues {
		if !q.failed {
			c.nodes.Add(1)
			q.chunks = append(q.chunks, c)
		}
	}
	f.more.Broadcast()
}

// Close waits until each node has all chunks of Add, or has failed.
func (f *Forward) Close() {
	f.mu.Lock()
	f.closed = true
	f.more.Broadcast()
	f.mu.Unlock()
	f.done.Wait()
}

// send sends all chunks to one node, until one fails.
func (f *Forward) send(ctx context.Context, to membership.Ref, q *queue) {
	eg, ctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.more.Broadcast()
	})
	defer stop()
	for range streams {
		eg.Go(func() error {
			for c := f.next(ctx, q); c != nil; c = f.next(ctx, q) {
				err := f.copier.Peers.WriteChunk(ctx, to, chunkstore.Upload{
					Generation: f.at.Generation, Draft: f.at.Sequence, Hash: c.chunk.Hash, Size: c.chunk.Size,
					Open: func() (io.ReadSeekCloser, error) { return f.open(c) },
				})
				c.sent()
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	_ = eg.Wait() // an error is ignored: Replicate sends the missing chunks
	f.mu.Lock()
	defer f.mu.Unlock()
	q.failed = true
	for _, c := range q.chunks {
		c.sent()
	}
	q.chunks = nil
}

// open opens a chunk from memory, else from the disk.
func (f *Forward) open(c *forwarded) (io.ReadSeekCloser, error) {
	if r := c.chunk.Open(); r != nil {
		return r, nil
	}
	return f.copier.open(c.chunk.Hash)
}

// next waits for the next chunk for a node. It prefers chunks in memory. It returns nil if there
// will be no more, or if ctx has ended.
func (f *Forward) next(ctx context.Context, q *queue) *forwarded {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(q.chunks) == 0 && !f.closed && ctx.Err() == nil {
		f.more.Wait()
	}
	if len(q.chunks) == 0 || ctx.Err() != nil {
		return nil
	}
	i := max(0, slices.IndexFunc(q.chunks, func(c *forwarded) bool { return c.chunk.InMemory() }))
	c := q.chunks[i]
	q.chunks = slices.Delete(q.chunks, i, i+1)
	return c
}
