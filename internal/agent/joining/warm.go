package joining

import (
	"context"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// warms reports whether this node, which joins, starts its workers before a world has it: the
// others train, their workers stay when the world changes, and only the start of those here would
// hold them up.
func (j *Joiner) warms(ctx context.Context, s *rendezvous.Snapshot) bool {
	w := s.World
	return j.Warm && s.Job.Roles == nil && w != nil && w.Phase == rendezvous.Running &&
		w.Attempt == s.Job.Attempt && OthersStay(ctx, j.Peers, w.Members)
}

// OthersStay reports whether a member says that its workers can stay. One may be lost: two are
// asked.
func OthersStay(ctx context.Context, p Peers, members []membership.Ref) bool {
	for _, m := range members[:min(len(members), 2)] {
		if a := p.Probe(ctx, m); a.Kind == membership.Same {
			return a.Stays
		}
	}
	return false
}
