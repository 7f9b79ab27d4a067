package joining

import (
	"context"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// trains reports whether the workers of the job train now. A node that joins then registers as one
// that the others go on without, until it has proved that it would not hold them up.
func trains(s *rendezvous.Snapshot) bool {
	w := s.World
	return w != nil && w.Phase == rendezvous.Running && w.Attempt == s.Job.Attempt
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
