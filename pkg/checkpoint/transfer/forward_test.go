package transfer

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/membership"
)

// The first chunks of a save are on the other node before the last one was read here, and when all
// were forwarded the other node lacks nothing.
func TestForwardWhileCopying(t *testing.T) {
	f := newFarm(t, "a", "b")
	from := memfs.New()
	memfs.Model(t, from)
	save := checkpointtest.SaveOf(t, from, 1, 7)
	c := f.copier(t, "a")
	arrived := make(chan struct{}, 1)
	f.disks["b"].(*memfs.FS).Machine.Hook = func(op, _ string) error {
		if op == "rename" {
			select {
			case arrived <- struct{}{}:
			default:
			}
		}
		return nil
	}
	forward := c.Forward(t.Context(), manifest.Position{Generation: 1, Sequence: 7},
		[]membership.Node{f.node("b")})
	var once atomic.Bool
	m, h, err := f.stores["a"].PutFollowed(t.Context(), save, func(l *chunkstore.LentChunk) {
		forward.Add(l)
		if once.CompareAndSwap(false, true) {
			<-arrived // the copying here goes on when the first chunk is there
		}
	})
	must(t, err)
	forward.Close()
	raw, _ := m.Encode()
	if missing, err := f.stores["b"].Offer(t.Context(), 1, raw); missing != nil || err != nil {
		t.Errorf("%d chunks are missing: %v", len(missing), err)
	}
	must(t, f.stores["b"].Verify(t.Context(), h))
}

// A node that fails gets no more chunks, the other ones get all, and Close returns.
func TestForwardToAFailingNode(t *testing.T) {
	for name, fail := range map[string]func(p *checkpointtest.Peers, cancel func()){
		"refuses": func(p *checkpointtest.Peers, _ func()) {
			p.Hook = func(_, node string) error {
				if node == "b" {
					return errors.New("refused")
				}
				return nil
			}
		},
		"does not answer, until it is known to be gone": func(p *checkpointtest.Peers, cancel func()) {
			p.Frozen = "b"
			p.Hook = func(_, node string) error { cancel(); return nil } // called for c
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFarm(t, "a", "b", "c")
			from := memfs.New()
			memfs.Model(t, from)
			m, _ := checkpointtest.Put(t, f.stores["a"], from, 1, 7)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			peers := &checkpointtest.Peers{Stores: f.stores}
			fail(peers, cancel)
			c := Copier{Store: f.stores["a"], Peers: peers, Generation: 1}
			at := manifest.Position{Generation: 1, Sequence: 7}
			toB := c.Forward(ctx, at, []membership.Node{f.node("b")})
			toC := c.Forward(t.Context(), at, []membership.Node{f.node("c")})
			for h, size := range m.DistinctChunks() {
				toB.Add(&chunkstore.LentChunk{Hash: h, Size: size})
				toC.Add(&chunkstore.LentChunk{Hash: h, Size: size})
			}
			toC.Close()
			toB.Close()
			raw, _ := m.Encode()
			if missing, err := f.stores["c"].Offer(t.Context(), 1, raw); missing != nil || err != nil {
				t.Errorf("c lacks %d chunks: %v", len(missing), err)
			}
			// What was not forwarded is sent as ever.
			peers.Frozen, peers.Hook = "", nil
			held, err := c.Replicate(t.Context(), func() manifest.Hash { _, h := m.Encode(); return h }(),
				[]membership.Node{f.node("b")})
			if len(held) != 1 || err != nil {
				t.Errorf("b does not hold it: %v", err)
			}
		})
	}
}
