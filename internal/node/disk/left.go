package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// Kept is what one node of this host keeps of a job.
type Kept struct {
	Node   string
	UID    schema.UID // "": the node was never in the job
	Dir    string
	Aside  bool // it was moved aside
	Server string
	Time   time.Time       // when the node last wrote what it knows of the job
	Newest checkpoint.Head // the newest commit that it knows; number 0: none
	// the largest generation that it saw
	Generation schema.Generation
	Job        *rendezvous.Job // nil: not known

	disk *Disk
	at   string // Dir, among the files of the disk
}

// KeptOf lists what the nodes of this host keep of the jobs of that name, by node; what was moved aside
// follows, the oldest first. state is <state>/<host>.
func KeptOf(state string, job schema.Job) ([]Kept, error) {
	return (&Disk{Dir: state, files: hostFiles(state), job: job}).Kept()
}

// Kept is KeptOf of this host and job.
func (d *Disk) Kept() ([]Kept, error) {
	nodes, err := d.files.ReadDir(nodesDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the nodes of this host: %w", err)
	}
	var all []Kept
	for _, n := range nodes {
		dir := d.dirOf(n.Name())
		dirs, err := d.asideOf(dir)
		if err != nil {
			return nil, err
		}
		if _, err := d.files.Stat(dir); err == nil {
			dirs = append([]aside{{dir: dir}}, dirs...)
		}
		for _, x := range dirs {
			k := Kept{Node: n.Name(), Dir: filepath.Join(d.Dir, x.dir), Aside: x.dir != dir, disk: d, at: x.dir}
			if k.UID, err = d.uidOf(x.dir); err != nil {
				return nil, fmt.Errorf("read the job of node %s: %w", k.Node, err)
			}
			k.recall()
			all = append(all, k)
		}
	}
	return all, nil
}

// recall adds what the node wrote down of the job. What cannot be read is not shown.
func (k *Kept) recall() {
	m, err := k.disk.recall(k.at)
	if m == nil || err != nil {
		return
	}
	k.Server, k.Newest, k.Job, k.Generation = m.Server, m.Known, &m.Job, m.Generation
	if fi, err := k.disk.files.Stat(path.Join(k.at, memoryFile)); err == nil {
		k.Time = fi.ModTime()
	}
}

// OpenStore opens the checkpoints of the node for reading. It fails with fs.ErrNotExist without
// any.
func (k Kept) OpenStore() (*readonly.Store, error) { return k.disk.openStore(k.at) }

// openStore opens the checkpoints in the directory of a job for reading. It fails with fs.ErrNotExist
// without any.
func (d *Disk) openStore(dir string) (*readonly.Store, error) {
	t, err := d.files.Tree(path.Join(dir, StoreDir))
	if err != nil {
		return nil, fmt.Errorf("open checkpoint store: %w", err)
	}
	return readonly.New(t), nil
}

// Part says how much of a job's directory is removed.
type Part int

const (
	Everything Part = iota
	AllButCheckpoints
)

// Size is how many bytes Remove would delete.
func (k Kept) Size(part Part) (bytes int64) {
	list, err := k.disk.files.ReadDir(k.at)
	if err != nil {
		return 0 // it is gone
	}
	for _, e := range list {
		if part.has(e.Name()) {
			bytes += k.disk.sizeOf(path.Join(k.at, e.Name()), e)
		}
	}
	return bytes
}

// has reports whether Remove deletes an entry of the directory of a job.
func (p Part) has(name string) bool {
	return name != lockFile && (p == Everything || name != StoreDir && name != WorkDir && name != uidFile)
}

// Remove deletes a part of the directory, and returns its size in bytes. It fails with
// message.ErrLocked while the agent of the node is alive.
func (k Kept) Remove(job schema.Job, part Part) (int64, error) {
	files := k.disk.files
	unlock, err := files.Lock(path.Join(k.at, lockFile))
	if err != nil {
		return 0, err
	}
	defer unlock()
	if now, err := k.disk.uidOf(k.at); err != nil || now != k.UID {
		return 0, err // since it was listed, the directory has become that of another job
	}
	list, err := files.ReadDir(k.at)
	if err != nil {
		return 0, err
	}
	var bytes int64
	for _, e := range list {
		if !part.has(e.Name()) {
			continue
		}
		at := path.Join(k.at, e.Name())
		bytes += k.disk.sizeOf(at, e)
		if err := files.RemoveAll(at); err != nil {
			return bytes, fmt.Errorf("remove what node %s keeps of job %s: %w", k.Node, job, err)
		}
	}
	if part != Everything {
		return bytes, nil
	}
	if err := files.Remove(path.Join(k.at, lockFile)); err != nil {
		return bytes, fmt.Errorf("remove the lock of node %s: %w", k.Node, err)
	}
	_ = files.Remove(k.at) // fails if an agent of another job has made a new lock in it
	return bytes, nil
}

// sizeOf returns the size of all files at and below a name. Files that it cannot read count as 0 bytes.
func (d *Disk) sizeOf(name string, e fs.DirEntry) (bytes int64) {
	if !e.IsDir() {
		if fi, err := e.Info(); err == nil && fi.Mode().IsRegular() {
			bytes = fi.Size()
		}
		return bytes
	}
	list, err := d.files.ReadDir(name)
	if err != nil {
		return 0
	}
	for _, below := range list {
		bytes += d.sizeOf(path.Join(name, below.Name()), below)
	}
	return bytes
}
