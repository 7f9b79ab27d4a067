package manifest

import (
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// Number counts the commits of a job: 1, 2, 3… It is the order of checkpoints; a step is
// information only, because files without a mark have none and a rollback lowers it.
type Number uint64

// Head is the record of a committed checkpoint: ckpt/head for the newest,
// ckpt/n/<number> for each.
type Head struct {
	Number     Number            `json:"number"`
	Generation schema.Generation `json:"generation"` // of the workers that wrote the bytes
	Manifest   Hash              `json:"manifest"`
	Step       *int64            `json:"step"`    // null: not in the save
	Samples    *int64            `json:"samples"` // likewise
	Bytes      int64             `json:"bytes"`
	// at Commit, of all or of a part; held/ lists the nodes that hold all of it now
	Holders []membership.Ref `json:"holders"`
	Copies  int              `json:"copies"` // of its weakest part
	// Parts say which of Holders had which part; nil: each of them had all.
	Parts []HeldPart `json:"parts,omitempty"`
	Time  time.Time  `json:"time"`
	// Offered: it was committed before the store was lost, and found after the job was made again
	// without it. The job starts from it only if the operator asks, and retention keeps it until
	// then.
	Offered bool  `json:"offered,omitempty"`
	Rev     int64 `json:"-"` // ModRevision of ckpt/head; 0: there never was a commit
}

// HeldPart is a part of a checkpoint, and the nodes that held it at Commit.
type HeldPart struct {
	Manifest Hash     `json:"manifest"`
	Holders  []string `json:"holders"`
}

// LaterStep reports whether the steps of both are known, and that of h is the later one.
func (h Head) LaterStep(than Head) bool {
	return h.Step != nil && than.Step != nil && *h.Step > *than.Step
}

// HasPart reports whether a manifest is that of one of its parts.
func (h Head) HasPart(part Hash) bool {
	return slices.ContainsFunc(h.Parts, func(p HeldPart) bool { return p.Manifest == part })
}

// CopiesAt is how many copies of the weakest part nodes have of which has is true: those that have
// all of it count for each part. has is asked for the holders of the record only where the
// checkpoint is in parts.
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

// HeldBy reports whether node held it, or a part of it, at Commit.
func (h Head) HeldBy(node string) bool {
	for _, r := range h.Holders {
		if r.Node == node {
			return true
		}
	}
	return false
}
