package manifest

import (
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// Number counts the commits of a job: 1, 2, 3… It is the order of
// checkpoints; a step is information only, because files that nobody
// explained have none and a rollback goes back in it.
type Number uint64

// Head is the record of a committed checkpoint: ckpt/head for the newest,
// ckpt/n/<number> for each.
type Head struct {
	Number     Number            `json:"number"`
	Generation schema.Generation `json:"generation"` // of the workers that wrote the bytes
	Manifest   Hash              `json:"manifest"`
	Step       *int64            `json:"step"`    // null: nothing told it
	Samples    *int64            `json:"samples"` // likewise
	Bytes      int64             `json:"bytes"`
	Holders    []membership.Ref  `json:"holders"` // at Commit; who holds it now is held/
	Copies     int               `json:"copies"`
	Time       time.Time         `json:"time"`
	// Offered: it is of before the store was lost, and came after the job was made again without
	// it. Only who asks for it starts from it, and it is not surplus before.
	Offered bool  `json:"offered,omitempty"`
	Rev     int64 `json:"-"` // ModRevision of ckpt/head; 0: there never was a commit
}

// HeldBy reports whether node held it at Commit.
func (h Head) HeldBy(node string) bool {
	for _, r := range h.Holders {
		if r.Node == node {
			return true
		}
	}
	return false
}
