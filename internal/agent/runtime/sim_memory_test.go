package runtime

import (
	"context"
	"errors"
	"slices"
	"syscall"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/late"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// What a disk of the simulation remembers of its job.

func (d *simDisk) Remember(node string, c *rendezvous.Claim) error {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	if d.host.full {
		d.host.refused++
		return error(syscall.ENOSPC)
	}
	delete(d.host.memory, node)
	if c != nil {
		d.host.memory[node] = *c
	}
	return nil
}

func (d *simDisk) Recall(node string) (*rendezvous.Claim, error) {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	if c, ok := d.host.memory[node]; ok {
		h, err := readonly.New(d.host.kept.chunks).Newest()
		// noted when it was committed, as by the real one
		if saved := d.host.saved[node]; len(saved) > 0 && d.kept == nil {
			h = saved[len(saved)-1]
		}
		if h.Number > c.Known.Number {
			c.Known = h
		}
		return &c, err
	}
	return nil, nil
}

func (d *simDisk) ComeLate(_ string, seen *rendezvous.Snapshot) error {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	if d.kept == nil {
		return nil
	}
	return late.TruncateIn(d.host.kept.chunks, seen.Head)
}

func (d *simDisk) Earlier(node string) (all []rendezvous.Earlier) {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	for _, x := range d.host.aside[node] {
		if x.memory != nil {
			held, _ := readonly.New(x.kept.chunks).Held()
			some, _ := readonly.New(x.kept.chunks).Partial()
			all = append(all, rendezvous.Earlier{Claim: *x.memory,
				Holds: len(x.saved)+len(held)+len(some) > 0})
		}
	}
	return all
}

func (d *simDisk) TakeBack(node string, job rendezvous.Job) error {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	if d.opened {
		d.s.wrongf("%s takes back job %s while it uses the data of another one", (*simAgent)(d).label(), job.UID)
	}
	d.node = node
	d.s.tracef("%s goes back to job %s", (*simAgent)(d).label(), job.UID)
	(*simAgent)(d).adopt(job)
	return nil
}

func (d *simDisk) Others(string) []rendezvous.Claim { return nil } // one node a host

func (d *simDisk) Salvage(
	ctx context.Context, node string, k checkpoint.Known) (checkpoint.Salvaged, error) {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	if d.kept != nil {
		return checkpoint.Salvage(ctx, readonly.New(d.host.kept.chunks), k)
	}
	found := checkpoint.Salvaged{Committed: slices.Clone(d.host.saved[node])}
	for _, h := range slices.Backward(found.Committed) {
		if !slices.Contains(d.host.failing, h.Number) {
			found.Newest = &h
			break
		}
		found.Unread = errors.New("permission denied")
	}
	return found, nil
}

// asideDisk is what a disk has of a job that its node left for another one.
type asideDisk struct {
	uid    schema.UID
	memory *rendezvous.Claim
	saved  []checkpoint.Head
	seen   schema.Generation
	kept   *keptDisk
}

// adopt does what Open and AdoptJob do with data of another job: it is kept if the job goes on, and is
// moved aside otherwise. mu is held.
func (a *simAgent) adopt(job rendezvous.Job) {
	h, node := a.host, a.node
	was := h.salvaged[node]
	h.salvaged[node] = job.UID
	mine := func(x asideDisk) bool { return x.uid == job.UID || job.Follows(x.uid) }
	if was != "" && !mine(asideDisk{uid: was}) {
		a.s.movedAside = true
		x := asideDisk{uid: was, saved: h.saved[node], seen: h.seen[node], kept: h.kept}
		if c, ok := h.memory[node]; ok {
			x.memory = &c
		}
		h.aside[node] = append(h.aside[node], x)
		delete(h.saved, node)
		delete(h.memory, node)
		delete(h.seen, node)
		h.kept, was = newKeptDisk(), ""
	}
	for i, x := range slices.Backward(h.aside[node]) {
		if was == "" && mine(x) {
			was = x.uid
			h.saved[node], h.seen[node], h.kept = x.saved, x.seen, x.kept
			if x.memory != nil {
				h.memory[node] = *x.memory
			}
			h.aside[node] = slices.Delete(slices.Clone(h.aside[node]), i, i+1)
		}
	}
	for i, x := range h.aside[node] {
		if job.Follows(x.uid) {
			h.aside[node][i].memory = nil
		}
	}
}

func (a *simAgent) AdoptJob(job rendezvous.Job) error {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if a.host.full && !a.host.fits {
		return error(syscall.ENOSPC)
	}
	a.s.tracef("%s goes on in the job that succeeds %s", a.label(), job.Succeeds)
	if !job.Follows(a.host.salvaged[a.node]) {
		a.s.wrongf("%s goes on in job %s without what it has", a.label(), job.UID)
	}
	a.adopt(job)
	if a.kept != nil {
		return a.kept.succeed(job)
	}
	return nil
}
