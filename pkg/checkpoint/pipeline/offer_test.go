package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// A node brought a checkpoint, and the job began from another one: what it has stays on its disk, is
// offered once there is a head, survives retention, and nothing of it is the head.
func TestWhatCameTooLateIsOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a", "b")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		b := c.replicator("b", c.etcd.Client("b"), func(replicator.Event) {})
		from := memfs.New()
		memfs.WriteFile(t, from, "model.pt", memfs.Bytes(1, 100), 0o600)
		_, seventh := checkpointtest.Put(t, b.Store, from, 1, 7)
		was := manifest.Head{Number: 7, Generation: 1, Manifest: seventh, Restored: true}
		must(t, b.Store.NoteCommitted([]manifest.Head{was}))

		c.write(t, store.Put(testJob.Fence(), []byte(schema.FenceValue("again", 3))))
		must(t, b.Store.Raise(3))
		if _, err := readonly.BringIn(ctx, c.disks["b"]); err != nil {
			t.Fatal(err)
		}
		b.AdoptJob("again")
		done := make(chan error, 1)
		run, crash := context.WithCancel(ctx)
		go func() { done <- b.Run(run) }()
		time.Sleep(time.Minute)
		crash()
		must(t, <-done)
		// The process dies before there is a head below which it can be offered. The next one knows
		// of it all the same.
		c.peers.Stores["b"] = reopen(t, c.disks["b"], func() bool { return false })
		b = c.replicator("b", c.etcd.Client("b"), func(replicator.Event) {})
		b.Record.UID = "again"
		go func() { done <- b.Run(ctx) }()
		time.Sleep(time.Minute)
		if !b.Store.Has(seventh) {
			t.Fatal("what came too late was removed before the record has it")
		}
		head := manifest.Head{Number: 8, Generation: 1, Manifest: manifest.Hash{1}}
		c.write(t, store.Put(testJob.Checkpoint(8), schema.Encode(head)),
			store.Put(testJob.Head(), schema.Encode(head)))
		time.Sleep(time.Minute)
		now, committed, err := b.Record.Read(ctx)
		must(t, err)
		i := slices.IndexFunc(committed, func(h manifest.Head) bool { return h.Manifest == seventh })
		if now.Number != 8 || i < 0 || !committed[i].Offered || committed[i].Number != 7 ||
			!committed[i].HeldBy("b") || committed[i].Restored {
			t.Errorf("head %+v, records %+v", now, committed)
		}
		if drop := (checkpoint.Retention{Keep: 1}).Surplus(committed, now); len(drop) > 0 {
			t.Errorf("surplus: %+v", drop)
		}
		time.Sleep(time.Hour)
		if !b.Store.Has(seventh) {
			t.Error("it was removed although it is offered")
		}
		if h, err := b.Store.Brought(); h != nil || err != nil {
			t.Errorf("it is still to be offered: %+v, %v", h, err)
		}
		cancel()
		must(t, <-done)
	})
}

// Nodes brought the parts of a checkpoint, and the job began from another one. They keep theirs, and offer
// it. If the parts had been brought together before the commit, its record does not name them.
func TestPartsThatCameTooLateAreOffered(t *testing.T) {
	for _, named := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) { offersParts(t, named) })
	}
}

func offersParts(t *testing.T, named bool) {
	x := newTeam(t, true, "a", "b", "c", "d")
	head := x.saveParts(10)
	x.close()
	nodes := []string{"a", "b", "c", "d"}
	for _, n := range nodes {
		must(t, x.replicators[n].Tidy(t.Context()))
	}
	x.write(t, store.Put(testJob.Fence(), []byte(schema.FenceValue("again", 3))))
	other := schema.Encode(manifest.Head{Number: 8, Generation: 3, Manifest: manifest.Hash{1}})
	x.write(t, store.Delete(testJob.Checkpoint(uint64(head.Number))),
		store.Put(testJob.Checkpoint(8), other), store.Put(testJob.Head(), other))
	for _, n := range nodes {
		must(t, x.replicators[n].Store.Raise(3))
		if !named {
			unnamed := head
			unnamed.Parts = nil
			b, err := json.Marshal([]manifest.Head{unnamed})
			must(t, err)
			memfs.WriteFile(t, x.disks[n], readonly.Heads, b, 0o600)
		}
		if _, err := readonly.BringIn(t.Context(), x.disks[n]); err != nil {
			t.Fatal(err)
		}
		x.peers.Stores[n] = reopen(t, x.disks[n], func() bool { return true }) // another agent
		x.replicators[n] = x.replicator(n, x.etcd.Client(n), func(replicator.Event) {})
		x.replicators[n].Record.UID = "again"
	}
	tidy := func(nodes ...string) {
		for _, n := range append(nodes, nodes...) { // what the first one offers, all have heard of then
			must(t, x.replicators[n].Tidy(t.Context()))
		}
	}
	tidy("a", "b")
	time.Sleep(time.Hour)
	tidy("a", "b", "c")
	_, committed, err := x.replicators["a"].Record.Read(t.Context())
	must(t, err)
	i := slices.IndexFunc(committed, func(h manifest.Head) bool { return h.Manifest == head.Manifest })
	if i < 0 || !committed[i].Offered || len(committed[i].Parts) != 4 || len(committed) != 2 {
		t.Fatalf("records: %+v", committed)
	}
	x.gone(t, "d")
	k := x.replicator("new", x.etcd.Client("new"), func(replicator.Event) {})
	k.Store, k.Record.UID = checkpointtest.OpenStore(t, memfs.New()), "again"
	delete(x.peers.Stores, "d")
	to := memfs.New()
	from := replicator.Resume{Generation: 4, Number: committed[i].Number, Manifest: head.Manifest}
	_, _, err = k.Prepare(t.Context(), from, capture.Dir{FS: to})
	must(t, err)
	if got := memfs.Contents(t, to); len(got) != 4 {
		t.Errorf("%q", got)
	}
}

// An offer takes a free number below the head; those above are of commits to come.
func TestOffer(t *testing.T) {
	for _, c := range []struct {
		taken []manifest.Number
		was   manifest.Number
		want  manifest.Number
	}{{[]manifest.Number{4}, 5, 5}, {[]manifest.Number{4, 5}, 5, 7}, {nil, 12, 7},
		{[]manifest.Number{1, 2, 3, 4, 5, 6, 7}, 9, 0}} {
		e := newCluster(t, "a")
		r := e.replicator("a", e.etcd.Client("a"), func(replicator.Event) {}).Record
		head := manifest.Head{Number: 8, Manifest: manifest.Hash{8}}
		head.Rev = e.write(t, store.Put(testJob.Head(), schema.Encode(head)))
		var committed []manifest.Head
		for _, n := range c.taken {
			committed = append(committed, manifest.Head{Number: n})
			e.write(t, store.Put(testJob.Checkpoint(uint64(n)), schema.Encode(manifest.Head{Number: n})))
		}
		offered := manifest.Head{Number: c.was, Manifest: manifest.Hash{9}}
		err := r.Offer(t.Context(), offered, head, committed)
		if c.want == 0 {
			if !errors.Is(err, checkpoint.ErrNoNumber) {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		must(t, err)
		read, err := r.Store.Get(t.Context(), testJob.Checkpoint(uint64(c.want)), "")
		must(t, err)
		h, err := checkpoint.DecodeHead(read.One())
		if err != nil || h.Manifest != (manifest.Hash{9}) || !h.Offered {
			t.Errorf("%+v: %+v %v", c, h, err)
		}
	}
}
