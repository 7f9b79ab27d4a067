package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

func TestSalvage(t *testing.T) {
	for _, c := range []struct {
		what  string
		prep  func(t *testing.T, s *chunkstore.Store, disk *memfs.FS, all []manifest.Hash)
		g     schema.Generation
		whole int             // of the captures (1,1) (1,2) (2,1) (2,2): which is the newest
		as    manifest.Number // and its number
		heads int
	}{
		{"what was committed last", func(*testing.T, *chunkstore.Store, *memfs.FS, []manifest.Hash) {}, 0, 2, 2, 2},
		{"what was captured later, in the newest generation", func(*testing.T, *chunkstore.Store, *memfs.FS,
			[]manifest.Hash) {
		}, 2, 4, 3, 2},
		{"and not what an older one left", func(*testing.T, *chunkstore.Store, *memfs.FS, []manifest.Hash) {}, 3, 2, 2,
			2},
		{"what is whole", func(t *testing.T, s *chunkstore.Store, disk *memfs.FS, all []manifest.Hash) {
			for _, h := range []manifest.Hash{all[3], all[1]} {
				m, err := s.Manifest(h)
				must(t, err)
				checkpointtest.Flip(t, disk, m.Files[0].Chunks[0])
			}
		}, 2, 3, 3, 2},
		{"nothing", func(t *testing.T, s *chunkstore.Store, disk *memfs.FS, all []manifest.Hash) {
			for _, h := range all {
				m, err := s.Manifest(h)
				must(t, err)
				checkpointtest.Flip(t, disk, m.Files[0].Chunks[0])
			}
		}, 2, 0, 0, 2},
		{"after a fall-back nothing of before it", func(t *testing.T, s *chunkstore.Store, disk *memfs.FS,
			all []manifest.Hash) {
			must(t, s.NoteCommitted([]manifest.Head{{Number: 1, Generation: 1, Manifest: all[0]},
				{Number: 2, Generation: 2, Manifest: all[2]}, {Number: 3, Generation: 1, Manifest: all[1]}}))
		}, 2, 2, 3, 3},
	} {
		t.Run(c.what, func(t *testing.T) {
			disk, from := memfs.New(), memfs.New()
			s := checkpointtest.OpenStore(t, disk)
			var all []manifest.Hash
			for i, at := range []struct{ Generation, Sequence int }{{1, 1}, {1, 2}, {2, 1}, {2, 2}} {
				memfs.WriteFile(t, from, "model.pt", memfs.Bytes(uint64(i), 100), 0o600)
				_, h := checkpointtest.Put(t, s, from, schema.Generation(at.Generation), uint64(at.Sequence))
				all = append(all, h)
			}
			must(t, s.NoteCommitted([]manifest.Head{{Number: 1, Generation: 1, Manifest: all[0]},
				{Number: 2, Generation: 1, Manifest: all[1]}}))
			c.prep(t, s, disk, all)
			heads, newest, err := Salvage(t.Context(), chunkstore.NewReadOnly(disk), c.g)
			must(t, err)
			if len(heads) != c.heads {
				t.Errorf("%d commits, want %d", len(heads), c.heads)
			}
			switch {
			case c.whole == 0 && newest == nil:
			case c.whole == 0 || newest == nil || newest.Manifest != all[c.whole-1] || newest.Number != c.as:
				t.Errorf("newest %+v, want capture %d as number %d", newest, c.whole, c.as)
			}
		})
	}
	if heads, newest, err := Salvage(t.Context(), chunkstore.NewReadOnly(memfs.New()), 1); err != nil || heads != nil ||
		newest != nil {
		t.Errorf("an empty disk: %v %v %v", heads, newest, err)
	}
}

// The job was made again without a node that had something newer. It comes back: what it has stays
// on its disk, is offered once there is a head, survives retention, and nothing of it is the head.
func TestWhatCameTooLateIsOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a", "b")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		b := c.keeper("b", c.etcd.Client("b"), func(Event) {})
		b.Record.Offered = func(h manifest.Head, was manifest.Number) store.Write {
			return history.Tell(testJob,
				history.Event{Kind: history.Offered, Text: fmt.Sprintf("%d was %d", h.Number, was)})
		}
		from := memfs.New()
		memfs.WriteFile(t, from, "model.pt", memfs.Bytes(1, 100), 0o600)
		_, late := checkpointtest.Put(t, b.Store, from, 1, 7)
		must(t, b.Store.NoteCommitted([]manifest.Head{{Number: 7, Generation: 1, Manifest: late}}))

		c.write(t, store.Put(testJob.Fence(), []byte(schema.FenceValue("again", 3))))
		must(t, b.Store.Raise(3))
		must(t, chunkstore.KeepLateIn(c.disks["b"], 4))
		b.Succeed("again")
		done := make(chan error, 1)
		run, crash := context.WithCancel(ctx)
		go func() { done <- b.Run(run) }()
		time.Sleep(time.Minute)
		crash()
		must(t, <-done)
		// The process dies before there is a head below which it can be offered. The next one knows
		// of it all the same.
		tell := b.Record.Offered
		c.peers.Stores["b"] = reopen(t, c.disks["b"], func() bool { return false })
		b = c.keeper("b", c.etcd.Client("b"), func(Event) {})
		b.Record.UID, b.Record.Offered = "again", tell
		go func() { done <- b.Run(ctx) }()
		time.Sleep(time.Minute)
		if !b.Store.Has(late) {
			t.Fatal("what came too late was removed before anybody heard of it")
		}
		head := manifest.Head{Number: 8, Generation: 1, Manifest: manifest.Hash{1}}
		c.write(t, store.Put(testJob.Checkpoint(8), schema.Encode(head)),
			store.Put(testJob.Head(), schema.Encode(head)))
		time.Sleep(time.Minute)
		now, committed, err := b.Record.Read(ctx)
		must(t, err)
		i := slices.IndexFunc(committed, func(h manifest.Head) bool { return h.Manifest == late })
		if now.Number != 8 || i < 0 || !committed[i].Offered || committed[i].Number != 7 || !committed[i].HeldBy("b") {
			t.Errorf("head %+v, records %+v", now, committed)
		}
		if drop := (Retention{Keep: 1}).Surplus(committed, now); len(drop) > 0 {
			t.Errorf("surplus: %+v", drop)
		}
		time.Sleep(time.Hour)
		if !b.Store.Has(late) {
			t.Error("it was removed although it is offered")
		}
		if h, err := b.Store.Late(); h != nil || err != nil {
			t.Errorf("it is still to be offered: %+v, %v", h, err)
		}
		cancel()
		must(t, <-done)
	})
}

// A number below the head that nobody has is taken; those above are of commits to come.
func TestOffer(t *testing.T) {
	for _, c := range []struct {
		taken []manifest.Number
		was   manifest.Number
		want  manifest.Number
	}{{[]manifest.Number{4}, 5, 5}, {[]manifest.Number{4, 5}, 5, 7}, {nil, 12, 7},
		{[]manifest.Number{1, 2, 3, 4, 5, 6, 7}, 9, 0}} {
		e := newCluster(t, "a")
		r := e.keeper("a", e.etcd.Client("a"), func(Event) {}).Record
		r.Offered = func(manifest.Head, manifest.Number) store.Write { return history.Tell(testJob) }
		head := manifest.Head{Number: 8, Manifest: manifest.Hash{8}}
		head.Rev = e.write(t, store.Put(testJob.Head(), schema.Encode(head)))
		var committed []manifest.Head
		for _, n := range c.taken {
			committed = append(committed, manifest.Head{Number: n})
			e.write(t, store.Put(testJob.Checkpoint(uint64(n)), schema.Encode(manifest.Head{Number: n})))
		}
		err := r.Offer(t.Context(), manifest.Head{Number: c.was, Manifest: manifest.Hash{9}}, head, committed, "a")
		if c.want == 0 {
			if !errors.Is(err, errNoNumber) {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		must(t, err)
		read, err := r.Store.Get(t.Context(), testJob.Checkpoint(uint64(c.want)), "")
		must(t, err)
		if h, err := DecodeHead(read.One()); err != nil || h.Manifest != (manifest.Hash{9}) || !h.Offered {
			t.Errorf("%+v: %+v %v", c, h, err)
		}
	}
}
