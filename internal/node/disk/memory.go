package disk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/bring"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// memoryFile has what the node knows of its job. The next agent compares the server with it.
const memoryFile = "claim"

// remembered is the content of memoryFile. Its names are those of the version before, which wrote more.
type remembered struct {
	Server string            `json:"server"`
	Memory rendezvous.Memory `json:"claim"`
}

// Remember writes what a node knows of its job to disk durably.
func (d *Disk) Remember(node string, m *rendezvous.Memory) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return writeMemory(d.JobDir(node), remembered{d.Server, *m})
}

func writeMemory(dir string, r remembered) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("remember the job: %w", err)
	}
	path := filepath.Join(dir, memoryFile)
	return Publish(path+".tmp", path, b)
}

// Recall returns what the node knows of the job with that identity, if its disk has it, present or moved
// aside. Otherwise it returns what it knows of the job whose data is present; nil: nothing.
func (d *Disk) Recall(node string, of schema.UID) (*rendezvous.Memory, error) {
	dir := d.JobDir(node)
	present, err := d.recall(dir)
	if err != nil || present != nil && present.Job.Identity() == of {
		return present, err
	}
	list, err := asideOf(dir)
	if err != nil {
		return nil, err
	}
	for _, x := range list {
		if m, err := d.recall(x.dir); err == nil && m != nil && m.Job.Identity() == of {
			return m, nil
		}
	}
	return present, nil
}

// recall reads the memory in the directory of a job. A damaged file was never written completely, and
// counts as none.
func (d *Disk) recall(dir string) (*rendezvous.Memory, error) {
	r, err := readMemory(dir)
	if r == nil || err != nil {
		return nil, err
	}
	m := &r.Memory
	m.Job.Name, m.Server = d.job, r.Server
	s, err := readonly.Open(filepath.Join(dir, StoreDir))
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return nil, err
	}
	defer s.Close()
	h, err := s.Newest()
	if h.Number > m.Known.Number { // it may have been committed after the memory was written
		m.Known = h
	}
	return m, err
}

func readMemory(dir string) (*remembered, error) {
	b, err := os.ReadFile(filepath.Join(dir, memoryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what this node knows of the job: %w", err)
	}
	var r remembered
	if json.Unmarshal(b, &r) != nil || r.Memory.Validate() != nil {
		return nil, nil
	}
	return &r, nil
}

// MoveAside moves what the node has of a job aside. A copy of a newest checkpoint may stay, for the next
// job of that name; nil: there is none. The caller holds the lock of the node, and no agent uses its
// data. After a crash the memory is still there, so that the next agent is asked again.
func (d *Disk) MoveAside(
	ctx context.Context, node string, stays rendezvous.Aside,
) (*rendezvous.Brought, error) {
	dir := d.JobDir(node)
	was, err := uidOf(dir)
	if err != nil {
		return nil, err
	}
	r, err := readMemory(dir)
	if err != nil {
		return nil, err
	}
	if r != nil {
		was = cmp.Or(was, r.Memory.Job.UID)
	}
	if was != "" {
		if _, err = setAside(dir, was); err != nil {
			return nil, fmt.Errorf("move an earlier job aside: %w", err)
		}
	}
	if !stays.Newest {
		return nil, nil
	}
	run := cmp.Or(stays.Run, was)
	if run == "" {
		return nil, nil
	}
	from, r, err := asideRun(dir, run)
	if err != nil || r == nil {
		return nil, err
	}
	if err := writeMemory(dir, *r); err != nil {
		return nil, err
	}
	found, err := bringFrom(ctx, filepath.Join(from, StoreDir), filepath.Join(dir, StoreDir))
	if found == nil || err != nil {
		return nil, err
	}
	// generations of this node go on above those of the earlier job
	if err := d.SetLastGeneration(node, max(r.Memory.Generation, found.Head.Generation)); err != nil {
		return nil, err
	}
	return &rendezvous.Brought{Node: node, Head: found.Head, Sequence: found.Sequence, Has: found.Has,
		From: r.Memory.Job.Identity()}, nil
}

// asideRun returns the newest directory that was moved aside with the data of a job, and what its node
// remembers. The job is known by the uid that it had then, or had first. nil: there is none.
func asideRun(dir string, run schema.UID) (from string, newest *remembered, err error) {
	list, err := asideOf(dir)
	if err != nil {
		return "", nil, err
	}
	for _, x := range list {
		r, err := readMemory(x.dir)
		if err != nil {
			return "", nil, err
		}
		if r != nil && (x.uid == run || r.Memory.Job.Identity() == run) {
			from, newest = x.dir, r
		}
	}
	return from, newest, nil
}

// bringFrom makes a store in to that has the newest checkpoint of the store in from. Both share the
// files.
func bringFrom(ctx context.Context, from, to string) (*bring.Found, error) {
	if err := os.RemoveAll(to); err != nil {
		return nil, err
	}
	err := linkTree(from, to)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, os.RemoveAll(to)
	}
	if err != nil {
		return nil, fmt.Errorf("bring the newest checkpoint: %w", err)
	}
	t, err := dirfs.Open(to)
	if err != nil {
		return nil, fmt.Errorf("bring the newest checkpoint: %w", err)
	}
	found, err := bring.In(ctx, t)
	if err = errors.Join(err, t.Close()); err == nil && found == nil {
		err = os.RemoveAll(to)
	}
	return found, err
}

// keepCommitted makes a store in dir that has the committed checkpoints, as far as they are in what was
// moved to the directory aside, if that is of the same job before it was made again.
func keepCommitted(dir, aside string, job rendezvous.Job, committed []checkpoint.Head) error {
	r, err := readMemory(aside)
	if err != nil || r == nil || r.Memory.Job.Identity() != job.Identity() {
		return err
	}
	temp, to := filepath.Join(dir, StoreDir+".tmp"), filepath.Join(dir, StoreDir)
	if err := os.RemoveAll(temp); err != nil {
		return err
	}
	if err := linkTree(filepath.Join(aside, StoreDir), temp); errors.Is(err, fs.ErrNotExist) {
		return os.RemoveAll(temp)
	} else if err != nil {
		return fmt.Errorf("keep the newest checkpoint: %w", err)
	}
	t, err := dirfs.Open(temp)
	if err != nil {
		return fmt.Errorf("keep the newest checkpoint: %w", err)
	}
	kept, err := bring.Keep(context.Background(), t, committed)
	switch err = errors.Join(err, t.Close()); {
	case err != nil:
		return fmt.Errorf("keep the newest checkpoint: %w", err)
	case !kept:
		return os.RemoveAll(temp)
	}
	return os.Rename(temp, to)
}

// linkTree makes a tree of hard links. The files of a chunk store are replaced and never changed.
func linkTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		return os.Link(path, filepath.Join(to, rel))
	})
}
