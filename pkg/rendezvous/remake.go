package rendezvous

import (
	"fmt"
	"slices"
	"strings"

	"github.com/elasticd/elastic/internal/phrase"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// holders are the claimants that have a manifest on their disks.
func holders(claims []Claim, m checkpoint.Hash) (refs []membership.Ref, copies int) {
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

func (m *Remake) Text() string {
	text := fmt.Sprintf("job made again after its store was lost, as %s claimed it", phrase.List(m.Claims))
	if len(m.Missing) > 0 {
		text += ", without " + phrase.List(m.Missing)
	}
	if m.Head == nil {
		return text + ": none of them has a checkpoint"
	}
	return text + fmt.Sprintf(": it goes on from %s, which is checkpoint %d now", DescribeHead(m.Head), m.Head.Number)
}
