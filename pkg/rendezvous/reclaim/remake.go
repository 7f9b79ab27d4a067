package reclaim

import (
	"cmp"
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
	Was     checkpoint.Number // the number that the head had in the store that was lost
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
	claims = joinParts(claims)
	mine := claimsOf(claims, newestJob(claims))
	for _, c := range mine {
		for _, h := range c.Heads {
			if h.Number == n {
				return remake(claims, mine, absentMembers(mine, mine[len(mine)-1]), &h)
			}
		}
		if c.Newest != nil && c.Newest.Number == n {
			return remake(claims, mine, absentMembers(mine, mine[len(mine)-1]), c.Newest)
		}
	}
	return nil
}

// Choices returns the numbers that Without accepts, the oldest first.
func Choices(claims []rendezvous.Claim) []checkpoint.Number {
	claims = joinParts(claims)
	numbers := map[checkpoint.Number]bool{}
	for _, c := range claimsOf(claims, newestJob(claims)) {
		for _, h := range c.Heads {
			numbers[h.Number] = true
		}
		if c.Newest != nil {
			numbers[c.Newest.Number] = true
		}
	}
	return slices.Sorted(maps.Keys(numbers))
}

// mostHistory bounds the number of older checkpoints that are adopted, because the size of a
// transaction is limited.
const mostHistory = 32

// adopt sets the fence, the head and the history. The head gets a number above every number that a
// claimant knows, and the fence is at least every generation that a claimant knows. So no
// checkpoint or generation of the lost store is newer.
func (r *Remake) adopt(all, mine []rendezvous.Claim, best *checkpoint.Head) {
	var number checkpoint.Number
	for _, c := range all {
		r.Fence = max(r.Fence, c.Generation, c.World)
		number = max(number, c.Known.Number, c.Top)
		for _, h := range c.Heads {
			number = max(number, h.Number)
		}
		if c.Newest != nil {
			number = max(number, c.Newest.Number)
		}
	}
	if best == nil {
		return
	}
	head := *best
	r.Was, head.Number = best.Number, number+1
	head = heldBy(mine, head)
	head.Offered = false
	r.Head = &head
	older := map[checkpoint.Number]checkpoint.Head{}
	for _, c := range mine {
		for _, h := range c.Heads {
			if h.Number <= best.Number && h.Manifest != best.Manifest {
				older[h.Number] = heldBy(mine, h)
			}
		}
	}
	for _, h := range older {
		r.History = append(r.History, h)
	}
	slices.SortFunc(r.History, func(a, b checkpoint.Head) int { return cmp.Compare(a.Number, b.Number) })
	r.History = r.History[max(0, len(r.History)-mostHistory):]
}

// holders returns the claimants that have all of a manifest on their disks, and how many they are.
func holders(claims []rendezvous.Claim, m checkpoint.Hash) (refs []membership.Ref, copies int) {
	for _, c := range claims {
		has := c.Newest != nil && c.Newest.Manifest == m ||
			slices.ContainsFunc(c.Heads, func(h checkpoint.Head) bool { return h.Manifest == m })
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
