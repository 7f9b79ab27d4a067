package runtime

import (
	"context"
	"slices"
	"syscall"

	"github.com/elasticd/elastic/internal/node/saves"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/bring"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/reclaim"
	"github.com/elasticd/elastic/pkg/schema"
)

// What a disk of the simulation remembers of its job, and what agents tell each other of it.

func (d *simDisk) Remember(node string, m *rendezvous.Memory) error {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	if d.host.full {
		d.host.refused++
		return error(syscall.ENOSPC)
	}
	d.host.memory[node] = *m
	return nil
}

func (d *simDisk) Recall(node string, of schema.UID) (*rendezvous.Memory, error) {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	m, ok := d.host.memory[node]
	kept, saved := d.host.kept, d.host.saved[node]
	if !ok || m.Job.Identity() != of {
		for _, x := range d.host.aside[node] {
			if x.memory != nil && x.memory.Job.Identity() == of {
				m, ok, kept, saved = *x.memory, true, x.kept, x.saved
			}
		}
	}
	if !ok {
		return nil, nil
	}
	h, err := readonly.New(kept.chunks).Newest()
	if !d.s.real && len(saved) > 0 {
		h = saved[len(saved)-1] // noted when it was committed, as by the real one
	}
	if h.Number > m.Known.Number {
		m.Known = h
	}
	return &m, err
}

func (d *simDisk) MoveAside(
	ctx context.Context, node string, stays rendezvous.Aside,
) (*rendezvous.Brought, error) {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	h := d.host
	m, ok := h.memory[node]
	if d.opened {
		d.s.wrongf("%s moves data aside that it uses", (*simAgent)(d).label())
	}
	was, saved := h.kept, h.saved[node]
	h.setAside(node)
	if !stays.Newest || !ok {
		return nil, nil
	}
	h.memory[node] = m
	b := &rendezvous.Brought{Node: node, From: m.Job.Identity()}
	if d.s.real {
		h.kept.chunks = was.chunks.Crash(func() bool { return true })
		found, err := bring.In(ctx, h.kept.chunks)
		if found == nil || err != nil {
			h.kept = newKeptDisk()
			return nil, err
		}
		b.Head, b.Sequence, b.Has = found.Head, found.Sequence, found.Has
	} else if len(saved) == 0 {
		return nil, nil
	} else {
		b.Head = saved[len(saved)-1]
		b.Sequence = uint64(b.Head.Number)
		h.saved[node] = []checkpoint.Head{b.Head}
	}
	h.seen[node] = max(m.Generation, b.Head.Generation)
	d.s.tracef("%s brings checkpoint %d of generation %d", d.name, b.Head.Number, b.Head.Generation)
	return b, nil
}

// asideDisk is what a disk has of a job that its node left for another one.
type asideDisk struct {
	uid    schema.UID
	memory *rendezvous.Memory
	saved  []checkpoint.Head
	seen   schema.Generation
	kept   *keptDisk
}

// setAside moves the data of a node aside. mu is held.
func (h *simHost) setAside(node string) {
	x := asideDisk{uid: h.salvaged[node], saved: h.saved[node], seen: h.seen[node], kept: h.kept}
	if m, ok := h.memory[node]; ok {
		x.memory = &m
	}
	h.aside[node] = append(h.aside[node], x)
	delete(h.saved, node)
	delete(h.memory, node)
	delete(h.seen, node)
	delete(h.salvaged, node)
	h.kept = newKeptDisk()
}

// adopt does what Open does with data of another job. mu is held.
func (a *simAgent) adopt(job rendezvous.Job, committed []checkpoint.Head) error {
	h, node := a.host, a.node
	if was := h.salvaged[node]; was == job.UID {
		return nil
	} else if was != "" {
		m, chunks, saved := h.memory[node], h.kept.chunks, h.saved[node]
		h.setAside(node)
		if m.Job.Identity() == job.Identity() {
			own := chunks.Crash(func() bool { return true })
			kept, err := bring.Keep(context.Background(), own, committed)
			if err != nil {
				return err
			}
			if kept {
				h.kept.chunks = own
			}
			for _, x := range saved {
				same := func(h checkpoint.Head) bool { return h.Manifest == x.Manifest && h.Number == x.Number }
				if slices.ContainsFunc(committed, same) {
					h.saved[node] = append(h.saved[node], x)
				}
			}
		}
	}
	for i, x := range slices.Backward(h.aside[node]) {
		if _, there := h.memory[node]; !there && x.uid == job.UID {
			h.saved[node], h.seen[node], h.kept = x.saved, x.seen, x.kept
			if x.memory != nil {
				h.memory[node] = *x.memory
			}
			h.aside[node] = slices.Delete(slices.Clone(h.aside[node]), i, i+1)
			break
		}
	}
	h.salvaged[node] = job.UID
	return nil
}

func (a *simAgent) AdoptJob(job rendezvous.Job) error {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if a.host.full && !a.host.fits {
		return error(syscall.ENOSPC)
	}
	a.s.tracef("%s goes on in job %s", a.label(), job.UID)
	a.host.salvaged[a.node] = job.UID
	if a.kept != nil {
		a.kept.succeed(job)
	}
	return nil
}

// Knows implements recovery.Peers.
func (p *simPeers) Knows(ctx context.Context, of membership.Ref) (reclaim.Knowledge, error) {
	if p.Probe(ctx, of).Kind != membership.Same {
		return reclaim.Knowledge{}, errNoAnswer
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	for _, b := range p.s.agents {
		if b.address == of.Address {
			return reclaim.Merge(b.hello.Knows, b.disk(b.hello.Knows.Generation)), nil
		}
	}
	return reclaim.Knowledge{}, errNoAnswer
}

// disk is what the disk of an agent knows. mu is held.
func (a *simAgent) disk(g schema.Generation) (k reclaim.Knowledge) {
	if a.kept != nil && a.kept.replicator != nil {
		return saves.Known(a.kept.replicator, g)
	}
	if saved := a.host.saved[a.node]; len(saved) > 0 {
		k.Head = saved[len(saved)-1]
	}
	return k
}

func (x simSaves) Knows(g schema.Generation) reclaim.Knowledge {
	x.a.s.mu.Lock()
	defer x.a.s.mu.Unlock()
	return x.a.disk(g)
}

func (x *keptSaves) Knows(g schema.Generation) reclaim.Knowledge {
	x.a.s.mu.Lock()
	defer x.a.s.mu.Unlock()
	return x.a.disk(g)
}
