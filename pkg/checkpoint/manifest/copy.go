package manifest

import (
	"slices"

	"github.com/elasticd/elastic/pkg/membership"
)

// Copy is what the disk of a node has of a checkpoint, committed or not.
type Copy struct {
	Node string `json:"-"`
	// Head is its record as a commit would be, or was in an earlier job. No holder is in it.
	Head     Head   `json:"head"`
	Sequence uint64 `json:"sequence"`      // among the captures of its generation
	Has      []Hash `json:"has,omitempty"` // the parts that are on the disk; nil: all of the checkpoint
}

// CopyOf returns the copy of a disk that has the manifest. The caller sets Has if it lacks parts.
func CopyOf(m *Manifest, h Hash) *Copy {
	c := &Copy{Head: HeadOf(m, h), Sequence: m.Sequence}
	for _, p := range m.Parts {
		c.Head.Parts = append(c.Head.Parts, HeldPart{Manifest: p, Holders: []string{}})
	}
	return c
}

// HeadOf returns the record of a checkpoint that a disk has as a whole, without number and holders.
func HeadOf(m *Manifest, h Hash) Head {
	return Head{Generation: m.Generation, Manifest: h, Step: m.Step, Samples: m.Samples, Bytes: m.Bytes(),
		Time: m.Time}
}

// Together returns h with those copies of it as holders. It returns false if they lack a part.
func (h Head) Together(of []Copy) (_ Head, complete bool) {
	parts, inParts := h.Parts, false
	h.Holders, h.Parts = nil, nil
	of = slices.DeleteFunc(slices.Clone(of), func(c Copy) bool {
		return c.Head.Manifest != h.Manifest || c.Has != nil && parts == nil
	})
	for _, c := range of {
		h.Holders = append(h.Holders, membership.Ref{Node: c.Node})
		inParts = inParts || c.Has != nil
	}
	if h.Copies = len(of); !inParts {
		return h, h.Copies > 0
	}
	for _, p := range parts {
		p.Holders = []string{}
		for _, c := range of {
			if c.Has == nil || slices.Contains(c.Has, p.Manifest) {
				p.Holders = append(p.Holders, c.Node)
			}
		}
		h.Parts = append(h.Parts, p)
	}
	h.Copies = h.CopiesAt(nil, h.HeldBy)
	return h, h.Copies > 0
}
