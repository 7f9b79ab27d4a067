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

func (d *simDisk) Left(node string) []rendezvous.Claim {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	return slices.Clone(d.host.aside[node])
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

// adopt does what Open and AdoptJob do with data of another job: it is kept if the job goes on. mu
// is held.
func (a *simAgent) adopt(job rendezvous.Job) {
	if was := a.host.salvaged[a.node]; was != job.UID && !job.Follows(was) {
		a.s.movedAside = a.s.movedAside || was != ""
		if c, ok := a.host.memory[a.node]; ok {
			a.host.aside[a.node] = append(a.host.aside[a.node], c)
		}
		delete(a.host.saved, a.node)
		delete(a.host.memory, a.node)
		delete(a.host.seen, a.node)
	}
	a.host.salvaged[a.node] = job.UID
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
