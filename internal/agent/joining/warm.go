package joining

import (
	"context"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// warms reports whether this joining node starts its workers before a World has it. That is so if
// the others train and their workers stay when the World changes, so that only the start of the
// workers here would delay them.
func (j *Joiner) warms(ctx context.Context, s *rendezvous.Snapshot) bool {
	w := s.World
	return j.Warm && s.Job.Roles == nil && w != nil && w.Phase == rendezvous.Running &&
		w.Attempt == s.Job.Attempt && OthersStay(ctx, j.Peers, w.Members)
}

// OthersStay reports whether a member says that its workers can stay. It asks two, because one may
// be lost.
func OthersStay(ctx context.Context, p Peers, members []membership.Ref) bool {
	for _, m := range members[:min(len(members), 2)] {
		if a := p.Probe(ctx, m); a.Kind == membership.Same {
			return a.Stays
		}
	}
	return false
}
