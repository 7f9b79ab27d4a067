package rendezvous

import (
	"slices"
	"strings"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Claim is the knowledge of one node about a job for which the store is behind: the job's record,
// the newest world that the node saw, and the checkpoints on its disk. A job is made again from
// claims and from nothing else.
type Claim struct {
	Node       string            `json:"-"`
	Job        Job               `json:"job"` // as it was, under the uid that it had
	Wish       Wish              `json:"wish"`
	WishRev    int64             `json:"wish_rev"`        // when it was written, in the store that was lost
	Generation schema.Generation `json:"generation"`      // largest that the node saw
	World      schema.Generation `json:"world"`           // the newest World that it knows; 0: none
	Phase      Phase             `json:"phase,omitempty"` // of that World, if it ended
	Count      int               `json:"count"`           // of its members
	Rank       int               `json:"rank"`            // of this node there; -1: it is no member
	// by rank; a large World's only from its first ranks
	Members []string          `json:"members,omitempty"`
	Known   checkpoint.Head   `json:"known"` // the newest commit that it heard of
	Heads   []checkpoint.Head `json:"heads"` // committed, and on its disk; oldest first
	// the newest on its disk that it has read and found whole
	Newest *checkpoint.Head `json:"newest"`
	// of Newest, among the captures of its generation; 0: not known
	Sequence uint64 `json:"sequence,omitempty"`
	// of commits that this node has not all of, the parts that it has read and found whole
	Parts []checkpoint.FoundParts `json:"parts,omitempty"`
	// OtherParts are of checkpoints that it does not know to be committed
	OtherParts []checkpoint.OtherParts `json:"other_parts,omitempty"`
	// Heads, Newest and Parts were read while the claim was in the store
	Looked bool `json:"looked"`
	// other nodes that were registered under that World, by name
	Spares []string `json:"spares,omitempty"`
	// this node found the store behind; else it joined others that did
	Behind bool `json:"behind"`
	// Lived: the agent was in the job when the store lost it. One that was started again cannot know
	// whether the job went on without it.
	Lived    bool   `json:"lived,omitempty"`
	Cluster  uint64 `json:"cluster,omitempty"` // the store that it last read, and the revision there
	StoreRev int64  `json:"store_rev,omitempty"`
	Rev      int64  `json:"-"`
	// Lease is that of the claim. It is a part of the value, so that no other claim has this value:
	// leases do not come back in a store that was wiped, and revisions do.
	Lease store.Lease `json:"lease,omitempty"`
}

// Claimed is the claim of a node to job j. w is the newest World that it knows; nil for none.
func Claimed(node string, j Job, wish Wish, w *World) Claim {
	c := Claim{Node: node, Job: j, Wish: wish, WishRev: wish.Rev, Rank: -1}
	if w == nil {
		return c
	}
	c.World, c.Generation, c.Count = w.Generation, w.Generation, w.Count
	if w.Phase.Ended() && w.Attempt == j.Attempt {
		c.Phase = w.Phase
	}
	if c.Wish.Request == "" {
		c.Wish, c.WishRev = Wish{NP: w.NP, Request: w.Request, By: "run", Time: w.Time}, w.WishRev
	}
	for rank, m := range w.Members {
		if m.Node == node {
			c.Rank = rank
		}
	}
	if w.Count <= MaxInline || c.Decides() {
		for _, m := range w.Members {
			c.Members = append(c.Members, m.Node)
		}
	}
	return c
}

// Learn takes in what the store shows that is newer than what the claim says. A proposal that was on
// its way may arrive while the job is claimed: the members of that World count then.
func (c *Claim) Learn(s *Snapshot) {
	c.Generation = max(c.Generation, s.Fence)
	if s.Head.Number > c.Known.Number {
		c.Known = s.Head
	}
	if s.Job == nil || s.Job.UID != c.Job.UID || s.World == nil || s.World.Generation <= c.World {
		return
	}
	now := Claimed(c.Node, c.Job, c.Wish, s.World)
	c.World, c.Phase, c.Count, c.Rank, c.Members = now.World, now.Phase, now.Count, now.Rank, now.Members
	if c.Wish.Request == "" {
		c.Wish, c.WishRev = now.Wish, now.WishRev
	}
	c.Looked = false // which captures count depends on the World
}

// Committed are the commits of which something is on the disk of the node.
func (c *Claim) Committed() []checkpoint.Head {
	all := slices.Clone(c.Heads)
	for _, p := range c.Parts {
		all = append(all, p.Head)
	}
	return all
}

const (
	fewClaims = 8 // up to here every node reads all claims, and may make the job again
	deciders  = 3 // of a larger World its first ranks do: for all the others the job itself is enough
)

// Decides reports whether this node looks at the claims of the others.
func (c *Claim) Decides() bool { return c.Count <= fewClaims || c.Rank >= 0 && c.Rank < deciders }

// decodeClaims reads claims/, by node.
func decodeClaims(job schema.Job, entries []store.Entry) (all []Claim, err error) {
	for i := range entries {
		e := &entries[i]
		p := schema.Rest(job.AllClaims(), e.Key)
		if len(p) != 1 {
			continue
		}
		c, err := schema.Decode[Claim](e)
		if err != nil {
			return nil, err
		}
		c.Node, c.Job.Name, c.Rev, c.Lease = p[0], job, e.Rev, e.Lease
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Claim) int { return strings.Compare(a.Node, b.Node) })
	return all, nil
}
