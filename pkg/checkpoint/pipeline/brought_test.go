package pipeline

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// A node brought a checkpoint. It stays on the disk until the job has begun, over a crash too. If the job
// began from it, it stays under its new number, else nothing of it is left: another directory has it.
func TestBrought(t *testing.T) {
	for _, chosen := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) { brings(t, chosen) })
	}
}

func brings(t *testing.T, chosen bool) {
	c := newCluster(t, "a", "b")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b := c.replicator("b", c.etcd.Client("b"), func(replicator.Event) {})
	from := memfs.New()
	memfs.WriteFile(t, from, "model.pt", memfs.Bytes(1, 100), 0o600)
	_, sixth := checkpointtest.Put(t, b.Store, from, 3, 6)
	memfs.WriteFile(t, from, "model.pt", memfs.Bytes(2, 100), 0o600)
	_, seventh := checkpointtest.Put(t, b.Store, from, 3, 7)
	must(t, b.Store.NoteCommitted([]manifest.Head{{Number: 7, Generation: 3, Manifest: seventh}}))
	must(t, b.Store.Raise(3))
	if _, err := readonly.BringIn(ctx, c.disks["b"]); err != nil {
		t.Fatal(err)
	}
	c.write(t, store.Put(testJob.Fence(), []byte(schema.FenceValue("again", 3))))
	again := func() {
		c.peers.Stores["b"] = reopen(t, c.disks["b"], func() bool { return true })
		b = c.replicator("b", c.etcd.Client("b"), func(replicator.Event) {})
		b.Record.UID = "again"
	}
	done := make(chan error, 1)
	for range 2 { // the first agent is killed
		again()
		run, crash := context.WithCancel(ctx)
		go func() { done <- b.Run(run) }()
		time.Sleep(time.Minute)
		crash()
		must(t, <-done)
	}
	if !b.Store.Has(seventh) || b.Store.Has(sixth) {
		t.Fatalf("before the job begins: it is here: %v, an older one: %v", b.Store.Has(seventh), b.Store.Has(sixth))
	}
	head := manifest.Head{Number: 8, Generation: 3, Manifest: manifest.Hash{1}}
	if chosen {
		head.Manifest = seventh
	}
	c.write(t, store.Put(testJob.Checkpoint(8), schema.Encode(head)), store.Put(testJob.Head(), schema.Encode(head)))
	must(t, b.Tidy(ctx))
	if was, err := b.Store.Brought(); was != nil || err != nil {
		t.Errorf("it is still brought: %+v, %v", was, err)
	}
	again()
	must(t, b.Tidy(ctx))
	newest, known := b.Store.Newest()
	if b.Store.Has(seventh) != chosen || len(b.Captures(3)) > 0 != chosen || known != chosen ||
		known && newest.Number != 8 {
		t.Errorf("chosen %v: it is here: %v, newest: %+v", chosen, b.Store.Has(seventh), newest)
	}
}

// Nodes brought the parts of a checkpoint, and the job began from it or from another one.
func TestBroughtParts(t *testing.T) {
	for _, chosen := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) { bringsParts(t, chosen) })
	}
}

func bringsParts(t *testing.T, chosen bool) {
	x := newTeam(t, true, "a", "b", "c")
	head := x.saveParts(10)
	x.close()
	next := head
	if next.Number = 8; !chosen {
		next.Manifest, next.Parts = manifest.Hash{1}, nil
	}
	x.write(t, store.Put(testJob.Fence(), []byte(schema.FenceValue("again", 1))),
		store.Delete(testJob.Checkpoint(uint64(head.Number))),
		store.Put(testJob.Checkpoint(8), schema.Encode(next)), store.Put(testJob.Head(), schema.Encode(next)))
	for _, m := range x.nodes {
		copied, err := readonly.BringIn(t.Context(), x.disks[m.Node])
		if err != nil || len(copied.Has) != 2 {
			t.Fatal(copied, err)
		}
		x.peers.Stores[m.Node] = reopen(t, x.disks[m.Node], func() bool { return true })
		k := x.replicator(m.Node, x.etcd.Client(m.Node), func(replicator.Event) {})
		k.Record.UID = "again"
		must(t, k.Tidy(t.Context()))
		if have := x.stored(m.Node) > 0; have != chosen || len(k.Captures(1)) > 0 != chosen {
			t.Errorf("chosen %v: %s has parts: %v", chosen, m.Node, have)
		}
	}
	if chosen && len(x.whole(next)) != 3 {
		t.Errorf("the parts make %v", x.whole(next))
	}
}
