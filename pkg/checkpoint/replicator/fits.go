package replicator

import (
	"context"

	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/restore"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// Fits proves, without writing, that this node could resume from a checkpoint: a holder answers with
// its manifest, and the disks have room for the chunks and the files that are missing here. A
// checkpoint in parts proves nothing: which parts this node would load depends on its ranks.
func (r *Replicator) Fits(ctx context.Context, head manifest.Head, dir capture.Dir) error {
	if head.Number == 0 || head.Parts != nil || r.Store.Has(head.Manifest) {
		return nil
	}
	m, err := r.manifestOf(ctx, head.Number, head.Manifest)
	if err != nil {
		return err
	}
	t, err := dir.Open()
	if err != nil {
		return err
	}
	defer t.Close()
	files, err := restore.Needed(ctx, t, m, r.Store)
	if err != nil {
		return err
	}
	return r.Store.Fits(m, t, files)
}
