package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// holds reports whether a world runs that answers the wish.
func holds(s *rendezvous.Snapshot, w rendezvous.Wish) bool {
	return s.World != nil && s.World.Attempt == s.Job.Attempt && s.World.WishRev >= w.Rev &&
		(s.World.Phase == rendezvous.Running || s.World.Phase == rendezvous.Finishing)
}

// followScale follows until the wish holds, and says meanwhile what is missing.
func (c *call) followScale(ctx context.Context, s *server, seen *rendezvous.Snapshot, wish rendezvous.Wish, limit time.Duration) error {
	name := seen.Job.Name
	if c.context.Bool("detach") {
		return c.scaled(seen, wish.NP, fmt.Sprintf("job %s was asked to scale to %d", name, wish.NP))
	}
	ctx, cancel := within(ctx, limit)
	defer cancel()
	var missing progressLine
	err := c.follow(ctx, s, name, func(snap *rendezvous.Snapshot) (bool, error) {
		st := rendezvous.Explain(snap, c.out.now())
		missing.tell(c, st)
		switch {
		case snap.Job.UID != seen.Job.UID || snap.Job.Attempt != seen.Job.Attempt:
			return true, fail(JobEnded, "the attempt of job %s that was to scale has ended", name)
		case ended(snap):
			return true, endedError(snap)
		case snap.Wish.Stop == snap.Job.Attempt:
			return true, fail(JobEnded, "overtaken: job %s was asked to stop", name)
		case snap.Wish.NP != wish.NP:
			return true, fail(NPConflict, "overtaken: job %s was asked for np=%d after it", name, snap.Wish.NP).
				because("somebody else scaled the same job").detail("np", snap.Wish.NP)
		case holds(snap, wish):
			return true, c.scaled(snap, wish.NP, fmt.Sprintf("job %s scaled to %d: generation %d running", name, wish.NP, snap.World.Generation))
		}
		return false, nil
	})
	return c.cut(err, missing.last, fmt.Sprintf("job %s was asked to scale to %d, and still is", name, wish.NP))
}
