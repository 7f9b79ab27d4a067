package pipeline

import (
	"context"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// cluster is the nodes of a job: their disks, a store in memory, a fence.
type cluster struct {
	etcd  *memory.Cluster
	peers *checkpointtest.Peers
	disks map[string]*memfs.FS // of the stores
	dirs  map[string]*memfs.FS // checkpoint directories
	nodes []membership.Node
}

const (
	testJob schema.Job = "x"
	testUID schema.UID = "u1"
)

// newCluster has the named nodes, each on a machine of its own.
func newCluster(t testing.TB, names ...string) *cluster {
	c := &cluster{
		etcd: memory.New(), peers: &checkpointtest.Peers{Stores: map[string]*chunkstore.Store{}},
		disks: map[string]*memfs.FS{}, dirs: map[string]*memfs.FS{},
	}
	for _, n := range names {
		c.disks[n], c.dirs[n] = memfs.New(), memfs.New()
		c.dirs[n].KeepNotes()
		c.peers.Stores[n] = checkpointtest.OpenStore(t, c.disks[n])
		c.join(t, n, "1")
	}
	c.propose(t, 1)
	return c
}

// join registers a node, anew if need be.
func (c *cluster) join(t testing.TB, node string, life membership.Incarnation) {
	t.Helper()
	n := membership.Node{Ref: membership.Ref{Node: node, Incarnation: life, Address: node + ":1"},
		Machine: "machine-" + node}
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

func recordOn(s store.Store, self string) *checkpoint.Record {
	return &checkpoint.Record{Store: s, Job: testJob, UID: testUID, Self: self}
}

// replicator returns the replicator of one node. Its events are sent to events.
func (c *cluster) replicator(
	node string, client store.Store, report func(replicator.Event),
) *replicator.Replicator {
	k := &replicator.Replicator{
		Store: c.peers.Stores[node], Peers: c.peers, Record: recordOn(client, node),
		Self: node, Replicas: 2, Keep: 3, Report: report,
	}
	k.Nodes(c.nodes)
	return k
}

var alive = capture.Workers{State: func() capture.WorkerState { return capture.Running }}

// reopen is a machine that lost power and came back: its store, opened again.
func reopen(t testing.TB, disk *memfs.FS, names func() bool) *chunkstore.Store {
	t.Helper()
	return checkpointtest.OpenStore(t, disk.Crash(names))
}

func stampOf(g schema.Generation) manifest.Stamp {
	return manifest.Stamp{Job: testJob, UID: testUID, Generation: g, WorldSize: 2}
}

func names(ok bool) func() bool { return func() bool { return ok } }

func long(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	t.Cleanup(cancel)
	return ctx
}
