package joining

import (
	"context"
	"errors"
	"time"

	"github.com/elasticd/elastic/internal/agent/detection"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// comesLate reports whether the job goes on from s without node, although s shows less than node
// remembers. It waits for a lease and a second to be sure: a store that was set back shows old
// registrations for as long as a lease, and a member of them may answer and only later find the
// store behind.
func (j *Joiner) comesLate(ctx context.Context, s *rendezvous.Snapshot, node string) (bool, error) {
	on, err := j.goesOnWithout(ctx, s, node)
	switch {
	case err != nil:
		return false, err
	case !on:
		j.state.goesOnSince = time.Time{}
		return false, nil
	case j.state.goesOnSince.IsZero():
		j.state.goesOnSince = time.Now()
	}
	if time.Since(j.state.goesOnSince) > j.LeaseTTL+time.Second {
		return true, nil
	}
	return false, hindrance{errors.New("the job goes on from an older state than this node remembers")}
}

// goesOnWithout reports whether the job goes on without node from what the store shows: the World
// has a member and runs, or a registered node has the newest checkpoint in the store. Otherwise the
// World may be about to begin from a checkpoint that was removed everywhere, because there were
// newer ones. It never runs without what this node has.
func (j *Joiner) goesOnWithout(ctx context.Context, s *rendezvous.Snapshot, node string) (bool, error) {
	on, err := j.hasMember(ctx, s, node)
	if !on || err != nil || s.World.Phase != rendezvous.Forming && s.World.Phase != rendezvous.Waiting {
		return on, err
	}
	whole, err := rendezvous.Read(ctx, j.Store, j.Job.Name)
	return err == nil && whole.HeadIsHere(), err
}

// hasMember reports whether a member of the World in the store, other than node, answers and is
// registered.
func (j *Joiner) hasMember(ctx context.Context, s *rendezvous.Snapshot, node string) (bool, error) {
	if s.World == nil {
		return false, nil
	}
	if err := j.openPeers(ctx, s); err != nil {
		return false, err
	}
	asked := 0
	for _, r := range s.World.Members {
		if r.Node == node || asked == detection.MaxWitnesses {
			continue
		}
		asked++
		if j.Peers.Probe(ctx, r).Kind != membership.Same {
			continue
		}
		n, err := j.registered(ctx, r.Node)
		if err != nil {
			return false, err
		}
		if n != nil && n.Same(r) {
			return true, nil
		}
	}
	return false, nil
}
