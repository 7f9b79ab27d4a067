package disk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/elasticd/elastic/pkg/checkpoint"
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
	return d.writeMemory(d.dirOf(node), remembered{d.Server, *m})
}

func (d *Disk) writeMemory(dir string, r remembered) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("remember the job: %w", err)
	}
	return publish(d.files, path.Join(dir, memoryFile), b)
}

// Recall returns what the node knows of the job with that identity, if its disk has it, present or moved
// aside. Otherwise it returns what it knows of the job whose data is present; nil: nothing.
func (d *Disk) Recall(node string, of schema.UID) (*rendezvous.Memory, error) {
	dir := d.dirOf(node)
	present, err := d.recall(dir)
	if err != nil || present != nil && present.Job.Identity() == of {
		return present, err
	}
	list, err := d.asideOf(dir)
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
	r, err := d.readMemory(dir)
	if r == nil || err != nil {
		return nil, err
	}
	m := &r.Memory
	m.Job.Name, m.Server = d.job, r.Server
	s, err := d.openStore(dir)
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

func (d *Disk) readMemory(dir string) (*remembered, error) {
	b, err := d.files.ReadFile(path.Join(dir, memoryFile))
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
	dir := d.dirOf(node)
	was, err := d.uidOf(dir)
	if err != nil {
		return nil, err
	}
	r, err := d.readMemory(dir)
	if err != nil {
		return nil, err
	}
	if r != nil {
		was = cmp.Or(was, r.Memory.Job.UID)
	}
	var stay []string
	if stays.Newest {
		stay = []string{memoryFile}
	}
	if was != "" {
		if _, err = d.setAside(dir, was, stay...); err != nil {
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
	from, r, err := d.asideRun(dir, run)
	if err != nil || r == nil {
		return nil, err
	}
	if err := d.writeMemory(dir, *r); err != nil {
		return nil, err
	}
	found, err := d.bringFrom(ctx, path.Join(from, StoreDir), path.Join(dir, StoreDir))
	if found == nil || err != nil {
		return nil, err
	}
	// generations of this node go on above those of the earlier job
	if err := d.SetLastGeneration(node, max(r.Memory.Generation, found.Head.Generation)); err != nil {
		return nil, err
	}
	found.Node = node
	return &rendezvous.Brought{Copy: *found, From: r.Memory.Job.Identity()}, nil
}

// asideRun returns the newest directory that was moved aside with checkpoints of a job, and what its node
// remembers. The job is known by the uid that it had then, or had first. nil: there is none.
func (d *Disk) asideRun(dir string, run schema.UID) (from string, newest *remembered, err error) {
	list, err := d.asideOf(dir)
	if err != nil {
		return "", nil, err
	}
	for _, x := range list {
		if !d.anyIn(x.dir, []string{StoreDir}) { // MoveAside was interrupted, and is repeated
			continue
		}
		r, err := d.readMemory(x.dir)
		if err != nil {
			return "", nil, err
		}
		if r != nil && (x.uid == run || r.Memory.Job.UID == run || r.Memory.Job.Identity() == run) {
			from, newest = x.dir, r
		}
	}
	return from, newest, nil
}

// bringFrom makes a store in to that has the newest checkpoint of the store in from. Both share the
// files.
func (d *Disk) bringFrom(ctx context.Context, from, to string) (*checkpoint.Copy, error) {
	var found *checkpoint.Copy
	kept, err := d.share(from, to, func(t dirfs.FS) (bool, error) {
		var err error
		found, err = readonly.BringIn(ctx, t)
		return found != nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("bring the newest checkpoint: %w", err)
	}
	if !kept {
		return nil, nil
	}
	return found, nil
}

// keepCommitted makes a store in dir that has the committed checkpoints, as far as they are in what was
// moved aside of the same job before it was made again.
func (d *Disk) keepCommitted(dir string, job rendezvous.Job, committed []checkpoint.Head) error {
	from, r, err := d.asideRun(dir, job.Identity())
	if r == nil || err != nil || d.anyIn(dir, []string{StoreDir}) {
		return err
	}
	_, err = d.share(path.Join(from, StoreDir), path.Join(dir, StoreDir), func(t dirfs.FS) (bool, error) {
		return readonly.KeepBrought(context.Background(), t, committed)
	})
	if err != nil {
		return fmt.Errorf("keep the newest checkpoint: %w", err)
	}
	return nil
}

// share makes the store to of the files of the store from. take keeps of it what the next job needs, and
// returns false if that is nothing. A process that dies meanwhile leaves no half of a store at to.
func (d *Disk) share(from, to string, take func(dirfs.FS) (bool, error)) (kept bool, err error) {
	temp := to + ".tmp"
	if err := errors.Join(d.files.RemoveAll(temp), d.files.RemoveAll(to)); err != nil {
		return false, err
	}
	if err := d.linkTree(from, temp); errors.Is(err, fs.ErrNotExist) {
		return false, d.files.RemoveAll(temp)
	} else if err != nil {
		return false, err
	}
	t, err := d.files.Tree(temp)
	if err != nil {
		return false, err
	}
	kept, err = take(t)
	switch err = errors.Join(err, t.Close()); {
	case err != nil:
		return false, err
	case !kept:
		return false, d.files.RemoveAll(temp)
	}
	if err := d.files.Rename(temp, to); err != nil {
		return false, err
	}
	return true, d.files.SyncDir(path.Dir(to))
}

// linkTree makes a durable tree of hard links. The files of a chunk store are replaced and never changed.
func (d *Disk) linkTree(from, to string) error {
	list, err := d.files.ReadDir(from)
	if err != nil {
		return err
	}
	if err := d.files.Mkdir(to); err != nil {
		return err
	}
	for _, e := range list {
		old, new := path.Join(from, e.Name()), path.Join(to, e.Name())
		link := d.files.Link
		if e.IsDir() {
			link = d.linkTree
		}
		if err := link(old, new); err != nil {
			return err
		}
	}
	return d.files.SyncDir(to)
}
