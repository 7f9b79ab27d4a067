package rendezvous

import (
	"cmp"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// Brought is the newest checkpoint that a node has of an earlier job of this name. The operator asked
// that the job begins from the newest one of all nodes.
type Brought struct {
	Node string          `json:"-"`
	Head checkpoint.Head `json:"head"` // as it was in the earlier job
	// Sequence is its place among the captures of its generation.
	Sequence uint64 `json:"sequence"`
	// Has are the parts that the node has; nil: all of the checkpoint.
	Has  []checkpoint.Hash `json:"has,omitempty"`
	From schema.UID        `json:"from"` // the earlier job
}

// Aside says what stays of earlier jobs when they are moved aside. The zero value is nothing.
type Aside struct {
	Newest bool // a copy of the newest checkpoint, for the next job of that name
	// Run is the uid of the job, at any time, that has this checkpoint. It may have been moved aside
	// before. "": the job whose data is present.
	Run schema.UID
}

// Validate checks the record.
func (b *Brought) Validate() error {
	var p schema.Problems
	p.Note(b.Head.Validate())
	p.Name("from", string(b.From))
	return p.Err()
}

// NewestBrought returns the newest checkpoint of earlier jobs that registered nodes brought, complete,
// by generation and then by its place among the captures of the generation; nil: there is none. Its
// holders are the nodes that have it or parts of it.
func (s *Snapshot) NewestBrought() (head *checkpoint.Head, from schema.UID) {
	var newest *Brought
	for i, b := range s.Brought {
		if s.Node(b.Node) == nil || !s.complete(b.Head) {
			continue
		}
		if newest == nil || cmp.Or(cmp.Compare(newest.Head.Generation, b.Head.Generation),
			cmp.Compare(newest.Sequence, b.Sequence), newest.Head.Compare(b.Head),
			cmp.Compare(newest.From, b.From)) < 0 {
			newest = &s.Brought[i]
		}
	}
	if newest == nil {
		return nil, ""
	}
	h := newest.Head
	h.Holders, h.Offered, h.Restored = nil, false, false
	h.Parts = checkpoint.UnheldParts(h.Parts)
	for _, b := range s.Brought {
		if b.Head.Manifest != h.Manifest || s.Node(b.Node) == nil {
			continue
		}
		h.Holders = append(h.Holders, membership.Ref{Node: b.Node})
		for i := range h.Parts {
			if p := &h.Parts[i]; b.Has == nil || slices.Contains(b.Has, p.Manifest) {
				p.Holders = append(p.Holders, b.Node)
			}
		}
	}
	if h.Copies = len(h.Holders); h.Parts != nil {
		h.Copies = h.CopiesAt(nil, h.HeldBy)
	}
	return &h, newest.From
}

// LacksBrought reports whether the first World has to begin from a checkpoint that a node brings, and none
// has brought one yet.
func (s *Snapshot) LacksBrought() bool {
	if s.World != nil || s.Head.Number > 0 || !s.Job.Resumes {
		return false
	}
	newest, _ := s.NewestBrought()
	return newest == nil
}

// complete reports whether the registered nodes together brought all of a checkpoint.
func (s *Snapshot) complete(h checkpoint.Head) bool {
	has := map[checkpoint.Hash]bool{}
	for _, b := range s.Brought {
		if b.Head.Manifest != h.Manifest || s.Node(b.Node) == nil {
			continue
		}
		if b.Has == nil {
			return true
		}
		for _, p := range b.Has {
			has[p] = true
		}
	}
	return h.Parts != nil &&
		!slices.ContainsFunc(h.Parts, func(p checkpoint.HeldPart) bool { return !has[p.Manifest] })
}
