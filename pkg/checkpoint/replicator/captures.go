package replicator

import (
	"cmp"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/schema"
)

// Captures returns the captures of generation g on this disk, the oldest first. It leaves out those
// that cannot be read.
func (r *Replicator) Captures(g schema.Generation) (all []manifest.Copy) {
	for h, at := range r.Store.Positions() {
		if at.Generation == g && !at.Part {
			if c := r.capture(h); c != nil {
				all = append(all, *c)
			}
		}
	}
	for _, h := range r.Store.InParts(g) {
		c := r.capture(h)
		if c == nil || r.Store.Has(h) {
			continue
		}
		for _, p := range c.Head.Parts {
			if r.Store.Has(p.Manifest) {
				c.Has = append(c.Has, p.Manifest)
			}
		}
		if c.Has != nil {
			all = append(all, *c)
		}
	}
	slices.SortFunc(all, func(a, b manifest.Copy) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence),
			slices.Compare(a.Head.Manifest[:], b.Head.Manifest[:]))
	})
	return all
}

// capture returns the capture of a manifest; nil: it cannot be read.
func (r *Replicator) capture(h manifest.Hash) *manifest.Copy {
	raw, err := r.Store.RawManifest(h)
	if err != nil {
		return nil
	}
	m, err := manifest.Decode(raw)
	if err != nil {
		return nil
	}
	return manifest.CopyOf(m, h)
}
