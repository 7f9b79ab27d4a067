package replicator

import (
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/schema"
)

// AdoptJob continues with the job that was made again with the uid u. Pipelines go on.
func (r *Replicator) AdoptJob(u schema.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Record.AdoptJob(u)
	r.published, r.publishedAs = nil, 0 // revisions of the old store are not valid in the new one
}

// findBrought looks once for a checkpoint of an earlier job on this disk.
func (r *Replicator) findBrought() (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.looked {
		return nil
	}
	if r.brought, err = r.Store.Brought(); err != nil {
		return err
	}
	r.looked = true
	return nil
}

// dropBrought forgets the brought checkpoint once the job has begun, from this one or another one. Until
// then nothing is removed from this disk. It reports whether the job has begun.
func (r *Replicator) dropBrought(head manifest.Head, committed []manifest.Head) (begun bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.brought == nil {
		return true, nil
	}
	if head.Number == 0 {
		return false, nil
	}
	// else this disk would know the checkpoint under its older number for a moment
	if err := r.Store.NoteCommitted(committed); err != nil {
		return false, err
	}
	if err := r.Store.DropBrought(*r.brought, committed); err != nil {
		return false, err
	}
	r.brought = nil
	return true, nil
}
