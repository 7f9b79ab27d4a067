package rendezvous

import (
	"cmp"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/schema"
)

// Brought is the newest checkpoint that a node has of an earlier job of this name. The operator asked
// that the job begins from the newest one of all nodes.
type Brought struct {
	checkpoint.Copy
	From schema.UID `json:"from"` // the earlier job
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
	here := slices.DeleteFunc(slices.Clone(s.Brought), func(b Brought) bool { return s.Node(b.Node) == nil })
	copies := make([]checkpoint.Copy, 0, len(here))
	for _, b := range here {
		copies = append(copies, b.Copy)
	}
	var newest *Brought
	for i, b := range here {
		h, ok := b.Head.Together(copies)
		if ok && (newest == nil || cmp.Or(cmp.Compare(newest.Head.Generation, b.Head.Generation),
			cmp.Compare(newest.Sequence, b.Sequence), newest.Head.Compare(b.Head),
			cmp.Compare(newest.From, b.From)) < 0) {
			newest, head = &here[i], &h
		}
	}
	if newest == nil {
		return nil, ""
	}
	head.Restored = false
	return head, newest.From
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
