package simulation

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/internal/node/disk"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// simHost is the part of a machine that outlives an agent: its state directory, with what internal/node/disk
// and internal/node/saves write into it, and the checkpoint directories of its nodes in it.
type simHost struct {
	node   string // that an agent of it had last: it is started again as that
	state  *memfs.Host
	boots  int           // how often it lost its power
	uid    schema.UID    // of the job that its node was in last
	jumped *atomic.Int64 // by how much its wall clock was set ahead; nil: it is never set
}

// newHost is a machine with an empty disk.
func newHost(id string) *simHost {
	return &simHost{state: memfs.NewHost(id, message.ErrLocked)}
}

// disk is the state directory as a command on the machine sees it.
func (h *simHost) disk(job schema.Job) *disk.Disk {
	d, err := disk.Of(h.state.Process(), job)
	if err != nil {
		panic(err) // no fault of the simulation fails a read
	}
	return d
}

// chunks is the directory of the node's chunk store.
func (h *simHost) chunks(job schema.Job) *memfs.FS { return h.dir(job, disk.StoreDir) }

// work is the checkpoint directory of the node.
func (h *simHost) work(job schema.Job) *memfs.FS { return h.dir(job, disk.WorkDir) }

// dir is a directory of the node and job; it is empty if there is none.
func (h *simHost) dir(job schema.Job, name string) *memfs.FS {
	if t, err := h.state.Tree().View(dirOf(h.node, job, name), nil); err == nil {
		return t
	}
	return memfs.New()
}

// dirOf is the name of a directory of a node and job.
func dirOf(node string, job schema.Job, name string) string {
	return fmt.Sprintf("nodes/%s/jobs/%s/%s", node, job, name)
}

// knows is what the disk of a host has of a job: the generation, and the numbers of the commits.
func (h *simHost) knows(job schema.Job) string {
	m, err := h.disk(job).Recall(h.node, "")
	if m == nil || err != nil {
		return ""
	}
	heads, _ := readonly.New(h.chunks(job)).Heads()
	var numbers []checkpoint.Number
	for _, x := range heads {
		numbers = append(numbers, x.Number)
	}
	return fmt.Sprintf("; its disk knows generation %d, commit %d and has %v", m.Generation, m.Known.Number,
		numbers)
}

// aside is how many jobs were moved aside.
func (h *simHost) aside(job schema.Job) (n int) {
	all, err := h.disk(job).Kept()
	if err != nil {
		panic(err) // as in disk
	}
	for _, k := range all {
		if k.Aside {
			n++
		}
	}
	return n
}

// fails makes every write to the disk of the host fail with err; nil: none does.
func (h *simHost) fails(err error) {
	h.state.Tree().Set(func(op, _ string) error {
		if slices.Contains([]string{"create", "write", "sync", "mkdir", "link"}, op) {
			return err
		}
		return nil
	}, 1<<40)
}

// full makes the disk of the host full, or gives it room.
func (h *simHost) full(on bool) {
	if on {
		h.fails(syscall.ENOSPC)
	} else {
		h.fails(nil)
	}
}

// simDisk is the disk of an agent. It is the one of production, and watches what is asked of it.
type simDisk struct {
	*disk.Disk
	a *simAgent
}

func (d simDisk) Remember(node string, m *rendezvous.Memory) error {
	err := d.Disk.Remember(node, m)
	if err != nil {
		d.a.s.mu.Lock()
		d.a.unwritten++
		d.a.s.mu.Unlock()
	}
	return err
}

func (d simDisk) MoveAside(
	ctx context.Context, node string, stays rendezvous.Aside,
) (*rendezvous.Brought, error) {
	b, err := d.Disk.MoveAside(ctx, node, stays)
	d.a.s.mu.Lock()
	defer d.a.s.mu.Unlock()
	if d.a.opened {
		d.a.s.wrongf("%s moves data aside that it uses", d.a.label())
	}
	d.a.host.uid = ""
	if b != nil {
		d.a.s.tracef("%s brings checkpoint %d of generation %d", d.a.name, b.Head.Number, b.Head.Generation)
	}
	return b, err
}
