package rendezvous

import (
	"cmp"
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
	WishRev    int64             `json:"wish_rev"`   // when it was written, in the store that was lost
	Generation schema.Generation `json:"generation"` // the largest that the node saw
	World      schema.Generation `json:"world"`      // the newest World that the node knows; 0: none
	WorldOrder schema.Order      `json:"world_order,omitempty"`
	Phase      Phase             `json:"phase,omitempty"` // of that World, if it ended
	Count      int               `json:"count"`           // of its members
	Rank       int               `json:"rank"`            // of this node in that World; -1: it is no member
	// Members are those of that World, by rank. For a large World only its first ranks list them.
	Members []string        `json:"members,omitempty"`
	Known   checkpoint.Head `json:"known"` // the newest commit of this job that the node heard of
	// Top is the largest number of a commit that the store shows, of whichever job, or that the node
	// knew before. The job that is made again gives no number up to Top.
	Top   checkpoint.Number `json:"top,omitempty"`
	Heads []checkpoint.Head `json:"heads"` // commits on the node's disk, the oldest first
	// the newest checkpoint on the node's disk that it has read and found whole
	Newest *checkpoint.Head `json:"newest"`
	// the place of Newest among the captures of its generation; 0: not known
	Sequence uint64 `json:"sequence,omitempty"`
	// the parts that the node has read and found whole, of commits of which it lacks other parts
	Parts []checkpoint.FoundParts `json:"parts,omitempty"`
	// OtherParts are the parts of checkpoints that the node does not know to be committed.
	OtherParts []checkpoint.OtherParts `json:"other_parts,omitempty"`
	// Looked: Heads, Newest and Parts were read while the claim was in the store.
	Looked bool `json:"looked"`
	// other nodes that were registered under that World, by name
	Spares []string `json:"spares,omitempty"`
	// GaveUp are other jobs of that name that the node was in before, the newest last. It heard of no
	// World of them, and has no checkpoint of them, so it had no part in a World of them that went on.
	GaveUp []schema.UID `json:"gave_up,omitempty"`
	// Behind: this node found the store behind; false: it joined the claim of other nodes.
	Behind bool `json:"behind"`
	// Lived: the agent was in the job when the store lost it. An agent that was started again
	// cannot know whether the job went on without its node.
	Lived    bool   `json:"lived,omitempty"`
	Cluster  uint64 `json:"cluster,omitempty"` // the store that it last read, and the revision there
	StoreRev int64  `json:"store_rev,omitempty"`
	Rev      int64  `json:"-"`
	// Lease is the lease of the claim. It is part of the value, so that no two claims have the same
	// value: a store that was wiped counts revisions anew, but does not use the id of a lease
	// again.
	Lease store.Lease `json:"lease,omitempty"`
}

// NewClaim returns the claim of a node to job j. w is the newest World that it knows; nil: none.
func NewClaim(node string, j Job, wish Wish, w *World) Claim {
	c := Claim{Node: node, Job: j, Wish: wish, WishRev: wish.Rev, Rank: -1}
	if w == nil {
		return c
	}
	c.World, c.WorldOrder, c.Generation, c.Count = w.Generation, w.Order, w.Generation, w.Count
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

// Learn updates the claim with what the store shows. A proposal that was on its way may still
// arrive while the job is claimed. The members of that World count then. The head and the World count
// only if the store shows the job under the uid of the claim: an earlier uid may have gone on without
// the node.
func (c *Claim) Learn(s *Snapshot) {
	c.Generation, c.Top = max(c.Generation, s.Fence), max(c.Top, s.Head.Number)
	if s.Job == nil || s.Job.UID != c.Job.UID {
		return
	}
	c.LearnCommit(s.Head)
	if s.World == nil {
		return
	}
	now := NewClaim(c.Node, c.Job, c.Wish, s.World)
	if now.CompareWorlds(c) <= 0 {
		return
	}
	if now.World <= c.World { // nodes went on without this one, after the store was set back
		now = NewClaim(c.Node, c.Job, s.Wish, s.World)
		c.Lived, c.Spares, c.Wish, c.WishRev = false, nil, now.Wish, now.WishRev
	}
	c.World, c.WorldOrder, c.Phase, c.Count = now.World, now.WorldOrder, now.Phase, now.Count
	c.Rank, c.Members = now.Rank, now.Members
	if c.Wish.Request == "" {
		c.Wish, c.WishRev = now.Wish, now.WishRev
	}
	c.Looked = false // which captures count depends on the World
}

// LearnCommit updates the claim with a commit of its job.
func (c *Claim) LearnCommit(h checkpoint.Head) {
	if c.Known.Before(h) {
		c.Top, c.Known = max(c.Top, c.Known.Number), h
	}
}

// CompareWorlds orders claims by the newest World that their nodes know.
func (c *Claim) CompareWorlds(o *Claim) int {
	return cmp.Or(cmp.Compare(c.WorldOrder, o.WorldOrder), cmp.Compare(c.World, o.World))
}

// Earlier is what a node has of a job of that name that it left for another one.
type Earlier struct {
	Claim Claim // as it last was
	Holds bool  // the node has all or some parts of checkpoints of that job
}

// GivenUp returns the ids of those jobs in which the node had no part (see Claim.GaveUp).
func GivenUp(all []Earlier) (ids []schema.UID) {
	for _, e := range all {
		if !e.Holds && !e.Claim.Ran() {
			ids = append(ids, e.Claim.Job.UID)
		}
	}
	return ids[max(0, len(ids)-mostGivenUp):]
}

// mostGivenUp bounds the number of jobs in Claim.GaveUp.
const mostGivenUp = 16

// Committed returns the commits of which the node has all or some parts on its disk.
func (c *Claim) Committed() []checkpoint.Head {
	all := slices.Clone(c.Heads)
	for _, p := range c.Parts {
		all = append(all, p.Head)
	}
	return all
}

const (
	fewClaims = 8 // up to here every node reads all claims, and may make the job again
	deciders  = 3 // in a larger World only so many first ranks do; the others read the job record alone
)

// Decides reports whether this node reads the claims of the others.
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
