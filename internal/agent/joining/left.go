package joining

import (
	"context"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// commitOwn commits, before node n joins, what it captured as rank 0 and did not commit: once n is
// registered, the next generation may begin.
func (j *Joiner) commitOwn(ctx context.Context, s *rendezvous.Snapshot, n membership.Node) error {
	if s.Capturer().Node != n.Node {
		return nil
	}
	whole, err := rendezvous.Read(ctx, j.Store, j.Job.Name) // which includes the failure record
	if err != nil {
		return err
	}
	if whole.Capturer().Node != n.Node {
		return nil
	}
	return j.Saves.CommitLeft(ctx, *whole.World, n)
}
