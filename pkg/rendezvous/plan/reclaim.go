package plan

// This file decides how living agents make a job again that the store has lost (docs/PROTOCOL.md,
// section 10).

import (
	"cmp"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// Knowledge is what the agent of a living member knows of the job.
type Knowledge struct {
	Node       string            `json:"node"`
	Remade     int               `json:"remade"`     // see rendezvous.Job
	Generation schema.Generation `json:"generation"` // of the newest World
	Turn       int64             `json:"turn"`       // revision of that World
	Fence      schema.Generation `json:"fence"`
	Head       checkpoint.Head   `json:"head"`             // the newest commit
	Copies     []checkpoint.Copy `json:"copies,omitempty"` // captures of that World on its disk
}

// Compare orders knowledge by the newest World.
func (k Knowledge) Compare(o Knowledge) int {
	return cmp.Or(cmp.Compare(k.Remade, o.Remade), cmp.Compare(k.Generation, o.Generation),
		cmp.Compare(k.Turn, o.Turn))
}

// MergeKnowledge adds what the disk of a node knows to what its agent knows.
func MergeKnowledge(k, disk Knowledge) Knowledge {
	if disk.Head.Number > k.Head.Number {
		k.Head = disk.Head
	}
	k.Copies = disk.Copies
	return k
}

// LostStore is a lost job as an agent has it in its memory.
type LostStore struct {
	Own     Knowledge
	Job     rendezvous.Job
	Wish    rendezvous.Wish
	World   *rendezvous.World // nil: the job had none
	History []checkpoint.Head
}

// Remake is a job that is to be made again.
type Remake struct {
	Job     rendezvous.Job // under its last uid
	Wish    rendezvous.Wish
	World   *rendezvous.World
	Fence   schema.Generation
	Head    checkpoint.Head // number 0: the job had no commit
	History []checkpoint.Head
}

// DecideRemake returns how an agent makes the job again. others are the living members that answered it. It
// returns nil if one of them knows a newer World: that one makes the job again.
//
// The head is the newest commit that any of them knows. Rank 0 knows every commit of its generation. If
// it is not among them, the newest capture of its World of which they have all bytes counts as
// committed, because it may be. No capture does if the operator restored a checkpoint after that World
// began.
func DecideRemake(l LostStore, others []Knowledge) *Remake {
	r := &Remake{Job: l.Job, Wish: l.Wish, World: l.World, Fence: l.Own.Fence, Head: l.Own.Head}
	all := append(slices.Clone(others), l.Own)
	for _, k := range all {
		if k.Compare(l.Own) > 0 {
			return nil
		}
		r.Fence = max(r.Fence, k.Fence, k.Generation)
		if k.Head.Number > r.Head.Number {
			r.Head = k.Head
		}
	}
	zero := func(k Knowledge) bool { return l.World.Members[0].Node == k.Node }
	if l.World != nil && len(l.World.Members) > 0 && !slices.ContainsFunc(all, zero) {
		if c := newestCopy(l.World, r.Head, all); c != nil {
			r.Head = *c
		}
	}
	for _, h := range l.History {
		if h.Number < r.Head.Number {
			r.History = append(r.History, h)
		}
	}
	r.History = r.History[max(0, len(r.History)-mostHistory):]
	return r
}

// mostHistory bounds the number of older checkpoints in a transaction, whose size is limited.
const mostHistory = 32

// newestCopy returns the newest capture of w that is later than the commit head, as a commit; nil: none.
func newestCopy(w *rendezvous.World, head checkpoint.Head, all []Knowledge) *checkpoint.Head {
	if head.Restored && (w.Resume == nil || head.Number > w.Resume.Number) {
		return nil
	}
	var copies []checkpoint.Copy
	for _, k := range all {
		for _, c := range k.Copies {
			c.Node = k.Node
			copies = append(copies, c)
		}
	}
	last, known := uint64(0), head.Generation != w.Generation
	for _, c := range copies {
		if c.Head.Manifest == head.Manifest {
			last, known = c.Sequence, true
		}
	}
	var newest *checkpoint.Head
	for _, c := range copies {
		if h, ok := c.Head.Together(copies); ok && known && c.Sequence > last {
			last, newest = c.Sequence, &h
			newest.Number = head.Number + 1
		}
	}
	return newest
}
