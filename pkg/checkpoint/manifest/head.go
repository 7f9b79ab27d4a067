package manifest

import (
	"cmp"
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// Number counts the commits of a job: 1, 2, 3… It orders the checkpoints. A step is only
// information: files without a mark may have none, and a rollback lowers it.
type Number uint64

// Head is the record of a committed checkpoint: ckpt/head is the newest, ckpt/n/<number> is each.
type Head struct {
	Number     Number            `json:"number"`
	Generation schema.Generation `json:"generation"` // of the workers that wrote the bytes
	Manifest   Hash              `json:"manifest"`
	Step       *int64            `json:"step"`    // null: not in the save
	Samples    *int64            `json:"samples"` // likewise
	Bytes      int64             `json:"bytes"`
	// Holders had the checkpoint, or a part of it, at the commit. The keys held/ list the nodes
	// that have all of it now.
	Holders []membership.Ref `json:"holders"`
	Copies  int              `json:"copies"` // of the part with the fewest copies
	// Parts says which of Holders had which part. nil: each holder had all of it.
	Parts []HeldPart `json:"parts,omitempty"`
	Time  time.Time  `json:"time"`
	// Restored says that an operator made an earlier checkpoint the head again. Saves of Worlds before
	// that, committed or not, are not newer.
	Restored bool  `json:"restored,omitempty"`
	Rev      int64 `json:"-"` // ModRevision of ckpt/head; 0: there never was a commit
}

// HeldPart is a part of a checkpoint, and the nodes that had it at the commit.
type HeldPart struct {
	Manifest Hash     `json:"manifest"`
	Holders  []string `json:"holders"`
}

// Compare orders the commits of one job.
func (h Head) Compare(o Head) int { return cmp.Compare(h.Number, o.Number) }

// Again returns h as the commit that follows head: the job goes back to h.
func (h Head) Again(head Head) Head {
	h.Number, h.Restored = head.Number+1, false
	return h
}

// HasPart reports whether part is the manifest of one of the checkpoint's parts.
func (h Head) HasPart(part Hash) bool {
	return slices.ContainsFunc(h.Parts, func(p HeldPart) bool { return p.Manifest == part })
}

// CopiesAt returns how many copies there are now of the part with the fewest copies. A node in all
// has the whole checkpoint, and counts for each part. A holder of a part counts if has reports true
// for it. has is called only if the checkpoint is in parts.
func (h Head) CopiesAt(all []string, has func(node string) bool) int {
	if h.Parts == nil {
		return len(all)
	}
	fewest := -1
	for _, p := range h.Parts {
		n := len(all)
		for _, node := range p.Holders {
			if has(node) && !slices.Contains(all, node) {
				n++
			}
		}
		if fewest < 0 || n < fewest {
			fewest = n
		}
	}
	return fewest
}

// HeldBy reports whether node had the checkpoint, or a part of it, at the commit.
func (h Head) HeldBy(node string) bool {
	for _, r := range h.Holders {
		if r.Node == node {
			return true
		}
	}
	return false
}
