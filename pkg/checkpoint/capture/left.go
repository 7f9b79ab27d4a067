package capture

import (
	"errors"
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/capture/judge"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// WatchLeft is Watch for a generation whose workers, and the agent that watched them, are gone:
// what changed since the inventory is theirs. last is the newest checkpoint of the job, nil if
// there is none. The result is nil where nothing is known of the directory, and where it is as another
// generation left it: a node that is away when a world is proposed may be its rank 0.
func WatchLeft(
	dir Dir, stamp manifest.Stamp, s *chunkstore.Store, last *manifest.Manifest,
) (*Watcher, error) {
	was, err := s.Inventory()
	if err != nil || was == nil || was.Prints == nil || was.Generation != stamp.Generation ||
		was.UID != stamp.UID {
		return nil, err
	}
	t, err := dir.Open()
	if err != nil {
		return nil, err
	}
	gone := Workers{State: func() WorkerState { return Killed }}
	c, err := watch(tree{dir, t}, stamp, gone, last)
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	for name, e := range c.base {
		if was.Prints[name] != e.print() && (last == nil || !last.Contains(name)) {
			delete(c.base, name)
		}
	}
	c.sequence = s.LastSequence(stamp.Generation)
	return c, nil
}

// Left returns the save that was left, if it is complete beyond doubt: no agent counted the writes
// of its files. So it is a save with a mark, or one directory that a rename or its framework's mark
// proves, or one renamed file if a save of this job has no other.
func (c *Watcher) Left(now time.Time) (*Picture, error) {
	p, _, err := c.look(now, Killed)
	if p == nil || err != nil {
		return nil, err
	}
	proven := func(u judge.Unit) bool { return u.Dir && u.Proven }
	alone := len(p.decision.Wrote) == 1 &&
		(proven(p.decision.Wrote[0]) || slices.Equal(c.memory.Keys(), []string{p.decision.Wrote[0].Key}))
	if !c.explicit && !alone {
		return nil, nil
	}
	return p, nil
}
