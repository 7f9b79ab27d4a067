package reclaim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// Remake is a job that is to be made again. Its head and history have their new numbers; its uid is
// not chosen yet.
type Remake struct {
	Job     rendezvous.Job
	Wish    rendezvous.Wish
	Ended   bool // its attempt had ended, so it goes on as a new attempt
	Fence   schema.Generation
	Head    *checkpoint.Head
	Was     checkpoint.Head // the head as it was in the store that was lost
	History []checkpoint.Head
	Claims  []string
	Missing []string
}

// remake makes the job of the claims mine again, from checkpoint best; nil is from scratch. all are
// the claims to all jobs of that name.
func remake(all, mine []rendezvous.Claim, missing []string, best *checkpoint.Head) *Remake {
	last := mine[len(mine)-1]
	r := &Remake{Job: last.Job, Wish: last.Wish, Ended: last.Phase.Ended(), Missing: missing}
	r.Job.Ran = slices.ContainsFunc(mine, func(c rendezvous.Claim) bool { return c.Ran() })
	for _, c := range mine {
		r.Claims = append(r.Claims, c.Node)
		if r.Job.Twin(&c.Job) { // nodes of a twin go on in this job
			r.Job.Supersede(&c.Job)
		}
	}
	for _, c := range all {
		if !c.Ran() { // its nodes go on in this job
			r.Job.Supersede(&c.Job)
		}
	}
	slices.Sort(r.Claims)
	r.adopt(all, mine, best)
	return r
}

// Without makes the job again from checkpoint n, without the missing nodes: the operator stated
// that they do not come back. It returns nil if no claimant has checkpoint n.
func Without(claims []rendezvous.Claim, n checkpoint.Number) *Remake {
	mine := claimsOf(claims, newestJob(claims))
	var chosen *checkpoint.Head
	for _, c := range mine {
		for _, h := range checkpointsOf(c) {
			if h.Number == n && (chosen == nil || compare(*chosen, h) < 0) {
				chosen = &h
			}
		}
	}
	if chosen == nil {
		return nil
	}
	return remake(claims, mine, absentMembers(withGivenUp(claims, mine), mine[len(mine)-1]), chosen)
}

// Choices returns the numbers that Without accepts, the oldest first.
func Choices(claims []rendezvous.Claim) []checkpoint.Number {
	numbers := map[checkpoint.Number]bool{}
	for _, c := range claimsOf(claims, newestJob(claims)) {
		for _, h := range checkpointsOf(c) {
			numbers[h.Number] = true
		}
	}
	return slices.Sorted(maps.Keys(numbers))
}

// checkpointsOf returns the checkpoints of a claim.
func checkpointsOf(c rendezvous.Claim) []checkpoint.Head {
	all := slices.Clone(c.Heads)
	if c.Newest != nil {
		all = append(all, *c.Newest)
	}
	return all
}

// mostHistory bounds the number of older checkpoints that are adopted, because the size of a
// transaction is limited.
const mostHistory = 32

// adopt sets the fence, the head and the history. The head gets a number and an order above all that
// a claimant knows, and the fence is at least every generation that a claimant knows. So no
// checkpoint or generation of the lost store is newer.
func (r *Remake) adopt(all, mine []rendezvous.Claim, best *checkpoint.Head) {
	var top checkpoint.Head
	if best != nil {
		top.Number, top.Order = best.Number, best.Order
	}
	for _, c := range all {
		r.Fence = max(r.Fence, c.Generation, c.World)
		top.Number, top.Order = max(top.Number, c.Top), max(top.Order, c.WorldOrder)
		for _, h := range append(checkpointsOf(c), c.Known) {
			top.Number, top.Order = max(top.Number, h.Number), max(top.Order, h.Order)
		}
	}
	if best == nil {
		return
	}
	head := heldBy(mine, best.Again(top))
	head.Offered = false
	r.Was, r.Head, r.History = *best, &head, olderThan(*best, mine)
}

// olderThan returns the commits that the claimants have beside best, oldest first. Of commits with the
// same number only the newest counts, and of older commits only those with smaller numbers.
func olderThan(best checkpoint.Head, mine []rendezvous.Claim) (older []checkpoint.Head) {
	var all []checkpoint.Head
	for _, c := range mine {
		all = append(all, c.Heads...)
	}
	slices.SortStableFunc(all, checkpoint.Head.Compare)
	below := best.Number + 1
	for _, h := range slices.Backward(all) {
		if h.Number >= below || len(older) == mostHistory {
			continue
		}
		if below = h.Number; h.Manifest != best.Manifest {
			older = append(older, heldBy(mine, h))
		}
	}
	slices.Reverse(older)
	return older
}

// holders returns the claimants that have all or some parts of a manifest on their disks, and how many
// they are.
func holders(claims []rendezvous.Claim, m checkpoint.Hash) (refs []membership.Ref, copies int) {
	for _, c := range claims {
		has := c.Newest != nil && c.Newest.Manifest == m ||
			slices.ContainsFunc(c.Heads, func(h checkpoint.Head) bool { return h.Manifest == m }) ||
			slices.ContainsFunc(c.Parts, func(p checkpoint.FoundParts) bool { return p.Head.Manifest == m })
		if has {
			refs = append(refs, membership.Ref{Node: c.Node})
		}
	}
	slices.SortFunc(refs, func(a, b membership.Ref) int { return strings.Compare(a.Node, b.Node) })
	return refs, len(refs)
}

// Text says how the job was made again.
func (m *Remake) Text() string {
	text := fmt.Sprintf("job made again after its store was lost, as %s claimed it", phrase.List(m.Claims))
	if len(m.Missing) > 0 {
		text += ", without " + phrase.List(m.Missing)
	}
	if m.Head == nil {
		return text + ": none of them has a checkpoint"
	}
	return text + fmt.Sprintf(": it goes on from %s, which is checkpoint %d now",
		rendezvous.DescribeHead(m.Head), m.Head.Number)
}
