package joining

import (
	"context"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// commitOwn commits what node n left captured and uncommitted as rank 0, before it joins: as soon
// as it is registered the next generation may begin.
func (j *Joiner) commitOwn(ctx context.Context, s *rendezvous.Snapshot, n membership.Node) error {
	if s.Capturer().Node != n.Node {
		return nil
	}
	whole, err := rendezvous.Read(ctx, j.Store, j.Job.Name) // with the record of a failure
	if err != nil {
		return err
	}
	if whole.Capturer().Node != n.Node {
		return nil
	}
	return j.Saves.CommitLeft(ctx, *whole.World, n)
}
