package capture

import (
	"errors"
	"maps"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/capture/table"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// WatchLeft is Watch for a generation whose workers have ended together with the agent that watched
// them. Entries that differ from the recorded fingerprints are theirs. last is the newest
// checkpoint of the job, nil if there is none. The result is nil if no fingerprints are recorded,
// or if they are of another generation: a node may be rank 0 of a world that was proposed while the
// node was away. It is nil, too, if the machine was booted since: what workers did not sync is lost
// then, and no format tells all of it.
func WatchLeft(
	dir Dir, stamp manifest.Stamp, s *chunkstore.Store, last *manifest.Manifest,
) (*Watcher, error) {
	was, err := s.Fingerprints()
	if err != nil || was == nil || was.Prints == nil || was.Generation != stamp.Generation ||
		was.UID != stamp.UID || was.Boot != dir.Boot {
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
	c.notices, c.last = nil, maps.Clone(c.base)
	c.start, c.sequence = maps.Clone(c.base), s.LastSequence(stamp.Generation)
	return c, nil
}

// Left returns the save that the workers left, if it is complete by a row of the table. No agent saw
// when its files were closed.
func (c *Watcher) Left(now time.Time) (*Picture, error) {
	p, _, err := c.look(instant{now, Killed})
	if p == nil || p.Row == table.Named && len(p.entries) > 1 || err != nil {
		return nil, err // no agent saw in which order several files were written
	}
	p.Save.Time = writtenLast(p.Save.Files, now)
	return p, nil
}

// writtenLast returns when the newest of the files was written, at most now. The save may be much
// older than its capture.
func writtenLast(files []dirfs.Found, now time.Time) (last time.Time) {
	for _, f := range files {
		if at := time.Unix(0, f.State.Mtime); at.After(last) {
			last = at
		}
	}
	if last.After(now) {
		return now
	}
	return last
}
