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

// Remake is a job as it is made again. Its head and history have their numbers; the uid is still to
// be chosen.
type Remake struct {
	Job     rendezvous.Job
	Wish    rendezvous.Wish
	Ended   bool // its attempt had ended: it goes on as a new one
	Fence   schema.Generation
	Head    *checkpoint.Head
	Was     checkpoint.Number // the number that the head had in the store that was lost
	History []checkpoint.Head
	Claims  []string
	Missing []string
}

// remake is the job as those claims make it again, from checkpoint best; nil is from scratch.
func remake(all, mine []rendezvous.Claim, missing []string, best *checkpoint.Head) *Remake {
	last := mine[len(mine)-1]
	r := &Remake{Job: last.Job, Wish: last.Wish, Ended: last.Phase.Ended(), Missing: missing}
	r.Job.Ran = slices.ContainsFunc(mine, func(c rendezvous.Claim) bool { return c.Ran() })
	for _, c := range mine {
		r.Claims = append(r.Claims, c.Node)
		if r.Job.Twin(&c.Job) {
			r.Job.Supersede(&c.Job)
		}
	}
	for _, c := range all {
		if !c.Ran() { // that job gives way to this one
			r.Job.Supersede(&c.Job)
		}
	}
	slices.Sort(r.Claims)
	r.adopt(all, mine, best)
	return r
}

// Without is the job as it is made again without the missing nodes, because an operator says that
// they do not come back, from checkpoint n of those that the others have; nil if none of them has
// it.
func Without(claims []rendezvous.Claim, n checkpoint.Number) *Remake {
	claims = joined(claims)
	mine := family(claims, newestJob(claims))
	for _, c := range mine {
		for _, h := range c.Heads {
			if h.Number == n {
				return remake(claims, mine, absent(mine, mine[len(mine)-1]), &h)
			}
		}
		if c.Newest != nil && c.Newest.Number == n {
			return remake(claims, mine, absent(mine, mine[len(mine)-1]), c.Newest)
		}
	}
	return nil
}

// Choices are the numbers of the checkpoints that Without takes, the oldest first.
func Choices(claims []rendezvous.Claim) []checkpoint.Number {
	claims = joined(claims)
	numbers := map[checkpoint.Number]bool{}
	for _, c := range family(claims, newestJob(claims)) {
		for _, h := range c.Heads {
			numbers[h.Number] = true
		}
		if c.Newest != nil {
			numbers[c.Newest.Number] = true
		}
	}
	return slices.Sorted(maps.Keys(numbers))
}

// mostHistory bounds how many older checkpoints are adopted: a transaction is small.
const mostHistory = 32

// adopt takes over the fence, the newest checkpoint and those before it. The head is numbered above
// every number that any node saw, and the fence is not below any generation: nothing of the time
// before can pass for newer.
func (r *Remake) adopt(all, mine []rendezvous.Claim, best *checkpoint.Head) {
	var number checkpoint.Number
	for _, c := range all {
		r.Fence = max(r.Fence, c.Generation, c.World)
		number = max(number, c.Known.Number)
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

// holders are the claimants that have a manifest on their disks.
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
