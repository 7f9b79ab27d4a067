package transfer

import (
	"context"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/membership"
)

// Forward sends the chunks of a save to other nodes while the save is still copied into the store of
// this one. It saves time and promises nothing: a node that fails gets no more chunks, and Replicate
// sends what is missing.
type Forward struct {
	copier *Copier
	at     manifest.Position
	done   sync.WaitGroup

	mu     sync.Mutex
	more   *sync.Cond // chunks or closed changed, or the context of a node ended
	chunks []forwarded
	closed bool
}

// forwarded is a chunk that is in the store.
type forwarded struct {
	hash manifest.Hash
	size int64
}

// Forward begins to send to the nodes of to what Add names, until Close or ctx ends it. at is the
// position of the save.
func (c *Copier) Forward(ctx context.Context, at manifest.Position, to []membership.Node) *Forward {
	f := &Forward{copier: c, at: at}
	f.more = sync.NewCond(&f.mu)
	for _, n := range to {
		f.done.Go(func() { f.send(ctx, n.Ref) })
	}
	return f
}

// Add has a chunk sent that is in the store. It does not wait.
func (f *Forward) Add(h manifest.Hash, size int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.chunks = append(f.chunks, forwarded{h, size})
	f.more.Broadcast()
}

// Close returns when each node has what Add named, or failed.
func (f *Forward) Close() {
	f.mu.Lock()
	f.closed = true
	f.more.Broadcast()
	f.mu.Unlock()
	f.done.Wait()
}

// send sends every chunk to one node, until one fails.
func (f *Forward) send(ctx context.Context, to membership.Ref) {
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(streams)
	stop := context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.more.Broadcast()
	})
	defer stop()
	for i := 0; ; i++ {
		chunk, ok := f.wait(ctx, i)
		if !ok {
			break
		}
		eg.Go(func() error {
			return f.copier.Peers.WriteChunk(ctx, to, chunkstore.Upload{
				Generation: f.at.Generation, Draft: f.at.Sequence, Hash: chunk.hash, Size: chunk.size,
				Open: func() (io.ReadSeekCloser, error) { return f.copier.open(chunk.hash) },
			})
		})
	}
	_ = eg.Wait() // Replicate finds out what the node has, and what it refuses
}

// wait returns the chunk i when it is there; false if there will be none, or ctx ends.
func (f *Forward) wait(ctx context.Context, i int) (forwarded, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i >= len(f.chunks) && !f.closed && ctx.Err() == nil {
		f.more.Wait()
	}
	if i >= len(f.chunks) || ctx.Err() != nil {
		return forwarded{}, false
	}
	return f.chunks[i], true
}
