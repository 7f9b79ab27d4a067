package manifest

import (
	"github.com/elasticd/elastic/pkg/schema"
)

// MaxNumber is the largest number whose key sorts like the number.
const MaxNumber Number = 999_999_999_999

// maxHolders is a limit far above the number of copies of any checkpoint.
const maxHolders = 1 << 16

// Validate checks the record of a checkpoint.
func (h *Head) Validate() error {
	var p schema.Problems
	p.Check(h.Number >= 1 && h.Number <= MaxNumber, "number is %d", h.Number)
	p.Generation("generation", h.Generation)
	p.Range("bytes", h.Bytes, 0, MaxBytes)
	p.Range("copies", int64(h.Copies), 0, maxHolders)
	p.Range("holders", int64(len(h.Holders)), 0, maxHolders)
	for _, r := range h.Holders {
		p.Note(r.Validate())
	}
	p.Range("parts", int64(len(h.Parts)), 0, maxHolders)
	p.Check(h.Parts == nil || len(h.Parts) > 0, "there is a list of parts and no part")
	for _, x := range h.Parts {
		p.Range("holders of a part", int64(len(x.Holders)), 0, maxHolders)
		for _, node := range x.Holders {
			p.Name("holder of a part", node)
		}
	}
	return p.Err()
}
