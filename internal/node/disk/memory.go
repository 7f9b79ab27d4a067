package disk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/late"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// claimFile has the claim that the node would make if the store lost the job. It is on disk for the
// case that the agent ends together with the store.
const claimFile = "claim"

// remembered is the content of claimFile.
type remembered struct {
	Server string           `json:"server"`
	Claim  rendezvous.Claim `json:"claim"`
}

// Remember writes the claim c to disk durably; nil removes the old one.
func (d *Disk) Remember(node string, c *rendezvous.Claim) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	path := filepath.Join(d.JobDir(node), claimFile)
	if c == nil {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forget the job: %w", err)
		}
		return nil
	}
	b, err := json.Marshal(remembered{d.Server, *c})
	if err != nil {
		return fmt.Errorf("remember the job: %w", err)
	}
	return Publish(path+".tmp", path, b)
}

// Recall reads the claim that Remember wrote. A damaged file was never written completely, and
// counts as none.
func (d *Disk) Recall(node string) (*rendezvous.Claim, error) {
	m, err := d.recall(node)
	if m == nil {
		return nil, err
	}
	err = d.read(node, func(s *readonly.Store) error {
		h, err := s.Newest()
		m.Claim.LearnCommit(h) // it may have been committed after the claim was written
		return err
	})
	return &m.Claim, err
}

// recall reads the claim of a node as it was written.
func (d *Disk) recall(node string) (*remembered, error) {
	m, err := d.recallFrom(d.JobDir(node), node)
	if err != nil {
		return nil, fmt.Errorf("read what node %s remembers of the job: %w", node, err)
	}
	return m, nil
}

// recallFrom reads the claim of a node from the directory of a job.
func (d *Disk) recallFrom(dir, node string) (*remembered, error) {
	b, err := os.ReadFile(filepath.Join(dir, claimFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var m remembered
	if json.Unmarshal(b, &m) != nil || m.Claim.Validate() != nil {
		return nil, nil
	}
	m.Claim.Node, m.Claim.Job.Name = node, d.job
	return &m, nil
}

// Earlier returns what the node has of earlier jobs, whose data was moved aside, the oldest first. A job
// is left out if its claim or its checkpoints cannot be read: its other nodes may then wait for this one.
func (d *Disk) Earlier(node string) (all []rendezvous.Earlier) {
	list, _ := asideOf(d.JobDir(node))
	for _, x := range list {
		m, err := d.recallFrom(x.dir, node)
		if m == nil || err != nil {
			continue
		}
		holds, err := x.holds()
		if err == nil {
			all = append(all, rendezvous.Earlier{Claim: m.Claim, Holds: holds})
		}
	}
	return all
}

// holds reports whether all or some parts of a checkpoint are there.
func (x aside) holds() (bool, error) {
	s, err := readonly.Open(filepath.Join(x.dir, StoreDir))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer s.Close()
	held, err := s.Held()
	if err != nil {
		return false, err
	}
	some, err := s.Partial()
	return len(held)+len(some) > 0, err
}

// TakeBack makes the earlier job the job of the node again. What the node has of its present one is
// moved aside. The caller holds the lock of the node, and no agent uses its data.
func (d *Disk) TakeBack(node string, job rendezvous.Job) error {
	_, err := d.Adopt(node, job)
	d.Close() // later reads open it again
	return err
}

// ComeLate keeps the late checkpoint of a job that went on from an older state (see late.Truncate).
func (d *Disk) ComeLate(node string, seen *rendezvous.Snapshot) error {
	return late.Truncate(filepath.Join(d.JobDir(node), StoreDir), seen.Head)
}

// Others returns the claims that other nodes of this host remember of the job, on the same server.
func (d *Disk) Others(node string) (all []rendezvous.Claim) {
	kept, err := KeptOf(d.Dir, d.job)
	if err != nil {
		return nil // each node reads its own claim again when it makes it
	}
	for _, k := range kept {
		if m, err := d.recall(k.Node); err == nil && m != nil && k.Node != node && m.Server == d.Server {
			all = append(all, m.Claim)
		}
	}
	return all
}

// Salvage reads the checkpoints on the disk of a node. The caller holds the lock of the node.
func (d *Disk) Salvage(
	ctx context.Context, node string, k checkpoint.Known,
) (found checkpoint.Salvaged, err error) {
	err = d.read(node, func(s *readonly.Store) error {
		found, err = checkpoint.Salvage(ctx, s, k)
		return err
	})
	return found, err
}

// read calls f with the checkpoints of a node, if it has any. It keeps the store open, because that
// caches what was read.
func (d *Disk) read(node string, f func(*readonly.Store) error) error {
	d.reading.Lock()
	defer d.reading.Unlock()
	if d.readOnly == nil {
		s, err := Kept{Dir: d.JobDir(node)}.OpenStore()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		d.readOnly = s
	}
	return f(d.readOnly)
}

// Close closes the checkpoints that Recall and Salvage opened. A later call opens them again.
func (d *Disk) Close() {
	d.reading.Lock()
	defer d.reading.Unlock()
	if d.readOnly != nil {
		d.readOnly.Close()
	}
	d.readOnly = nil
}
