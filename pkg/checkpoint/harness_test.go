package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// direct is Peers without a network between the stores.
type direct struct {
	mu     sync.Mutex
	stores map[string]*Store
	hook   func(op, node string) error
	frozen string // a node that takes requests and does not answer
}

func (d *direct) to(ctx context.Context, op, node string) (*Store, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if node == d.frozen {
		d.mu.Unlock()
		<-ctx.Done()
		d.mu.Lock()
		return nil, ctx.Err()
	}
	if d.hook != nil {
		if err := d.hook(op, node); err != nil {
			return nil, err
		}
	}
	s := d.stores[node]
	if s == nil {
		return nil, fmt.Errorf("node %s: no route", node)
	}
	return s, nil
}

func (d *direct) Manifest(ctx context.Context, from membership.Ref, h Hash) ([]byte, error) {
	s, err := d.to(ctx, "manifest", from.Node)
	if err != nil {
		return nil, err
	}
	if !s.Has(h) {
		return nil, ErrNotHeld
	}
	return s.rawManifest(h)
}

func (d *direct) Chunk(ctx context.Context, from membership.Ref, h Hash, dst []byte) error {
	s, err := d.to(ctx, "chunk", from.Node)
	if err != nil {
		return err
	}
	f, err := s.OpenChunk(h)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.ReadFull(f, dst)
	return err
}

func (d *direct) Offer(ctx context.Context, to membership.Ref, g schema.Generation, h Hash, raw []byte) ([]Hash, error) {
	s, err := d.to(ctx, "offer", to.Node)
	if err != nil {
		return nil, err
	}
	return s.Offer(ctx, g, raw)
}

func (d *direct) WriteChunk(ctx context.Context, to membership.Ref, g schema.Generation, h Hash, size int64, open func() (io.ReadSeekCloser, error)) error {
	s, err := d.to(ctx, "write", to.Node)
	if err != nil {
		return err
	}
	f, err := open()
	if err != nil {
		return err
	}
	defer f.Close()
	return s.WriteChunk(g, h, f)
}

// cluster is the nodes of a job: their disks, a store in memory, a fence.
type cluster struct {
	etcd  *memory.Cluster
	peers *direct
	disks map[string]*memTree // of the stores
	dirs  map[string]*memTree // checkpoint directories
	nodes []membership.Node
}

const (
	testJob schema.Job = "x"
	testUID schema.UID = "u1"
)

// newCluster has the named nodes, each on a machine of its own.
func newCluster(t testing.TB, names ...string) *cluster {
	c := &cluster{
		etcd: memory.New(), peers: &direct{stores: map[string]*Store{}},
		disks: map[string]*memTree{}, dirs: map[string]*memTree{},
	}
	for _, n := range names {
		c.disks[n], c.dirs[n] = newMem(), newMem()
		c.peers.stores[n] = storeOn(t, c.disks[n])
		c.join(t, n, "1")
	}
	c.propose(t, 1)
	return c
}

// join registers a node, anew if need be.
func (c *cluster) join(t testing.TB, node string, life membership.Incarnation) {
	t.Helper()
	n := membership.Node{Ref: membership.Ref{Node: node, Incarnation: life, Address: node + ":1"}, Machine: "machine-" + node}
	n.Rev = c.write(t, store.Put(testJob.Node(node), schema.Encode(n)))
	for i := range c.nodes {
		if c.nodes[i].Node == node {
			c.nodes[i] = n
			return
		}
	}
	c.nodes = append(c.nodes, n)
}

// gone removes a registration.
func (c *cluster) gone(t testing.TB, node string) {
	t.Helper()
	c.write(t, store.Delete(testJob.Node(node)))
	for i, n := range c.nodes {
		if n.Node == node {
			c.nodes = append(c.nodes[:i:i], c.nodes[i+1:]...)
			return
		}
	}
}

func (c *cluster) propose(t testing.TB, g schema.Generation) {
	t.Helper()
	c.write(t, store.Put(testJob.Fence(), []byte(schema.FenceValue(testUID, g))))
}

func (c *cluster) write(t testing.TB, w ...store.Write) int64 {
	t.Helper()
	r, err := c.etcd.Client("test").Txn(context.Background(), store.Txn{Then: w})
	must(t, err)
	return r.Rev
}

func recordOn(s store.Store) *Record {
	return &Record{
		Store: s, Job: testJob, UID: testUID,
		Event: func(h Head) store.Write {
			return history.Tell(testJob, history.Event{Kind: history.Committed, Generation: h.Generation, Fields: history.Fields{"number": h.Number}})
		},
		Gone: func(h []Head) store.Write { return history.Tell(testJob, history.Event{Kind: history.Deleted}) },
	}
}

// keeper is that of one node; what it reports goes to events.
func (c *cluster) keeper(node string, client store.Store, report func(Event)) *Keeper {
	k := &Keeper{
		Store: c.peers.stores[node], Peers: c.peers, Record: recordOn(client),
		Self: node, Replicas: 2, Keep: 3, Report: report,
	}
	k.Nodes(c.nodes)
	return k
}

func alive() Writing { return Alive }

var errCrash = errors.New("crashed")

// reopen is a machine that lost power and came back: its store, opened again.
func reopen(t testing.TB, disk *memTree, names func() bool) *Store {
	t.Helper()
	return storeOn(t, disk.crash(names))
}

func stampOf(g schema.Generation) Stamp { return Stamp{testJob, testUID, g, 2} }

func names(ok bool) func() bool { return func() bool { return ok } }

func long(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	t.Cleanup(cancel)
	return ctx
}
