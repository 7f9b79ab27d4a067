package capture

import (
	"errors"
	"io/fs"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// verdicts on a changed entry.
type completeness int

const (
	unfinished completeness = iota // wait
	complete
	broken // and nobody will finish it
)

func (c *Watcher) judge(e *entry, now time.Time, last bool, writing WorkerState) (completeness, error) {
	quiet := now.Sub(c.since[e.name])
	was := c.base[e.name]
	over := unfinished // the verdict on what lacks something
	if last || writing == Killed {
		over = broken
	}
	if e.dir && e.has("checkpoint-is-incomplete.txt") {
		return over, nil
	}
	if c.explicit {
		fresh := e.mark != nil && (was == nil || was.mark == nil || !e.mark.SameBytes(*was.mark)) && e.newest() <= e.mark.Mtime
		if fresh {
			return complete, nil
		}
		if e.mark != nil || e.numbered() {
			return over, nil // its own mark comes when it is finished
		}
	}
	if e.dir && e.hasExt(".distcp") && !e.has(".metadata") {
		return over, nil
	}
	if trackedDir.MatchString(e.name) && !e.named && quiet < quietStuck {
		return over, nil
	}
	published := e.top.Published() && e.newest() <= e.top.Ctime
	if e.scratch && !published && quiet < quietStuck {
		return over, nil
	}
	marked := e.named || e.has("trainer_state.json") || e.has(".metadata")
	if writing == Killed && !published && !marked {
		return broken, nil
	}
	// Reading is the dear part: not before the times say that nothing moves.
	if !last && !published && (quiet < settledFor(marked, e) || e.young(now, quiet)) {
		return unfinished, nil
	}
	w, err := c.wholeness(e)
	switch {
	case err != nil:
		return unfinished, err
	case w == torn && (last || writing == Killed || quiet >= quietStuck):
		return broken, nil
	case w == torn:
		return unfinished, nil
	case w == opaque && !last && !published && !marked && quiet < quietOpaque:
		return unfinished, nil
	}
	return complete, nil
}

// young reports whether the newest write is so new that the next one may not show.
func (e *entry) young(now time.Time, quiet time.Duration) bool {
	age := time.Duration(now.UnixNano() - e.newest())
	if age < 0 {
		age = quiet // another machine's clock
	}
	return age < settled
}

// settledFor is how long an entry must have been quiet before it is read.
func settledFor(marked bool, e *entry) time.Duration {
	switch {
	case marked:
		return quietSet
	case e.dir:
		return quietOpaque
	}
	return 0
}

// wholeness is the worst of the entry's files. What was found is remembered while a file stays as it is.
func (c *Watcher) wholeness(e *entry) (wholeness, error) {
	result := whole
	for _, f := range e.files {
		w, ok := c.sound[f]
		if !ok {
			var err error
			if w, err = check(c.dir, f); errors.Is(err, fs.ErrNotExist) {
				return torn, nil
			} else if err != nil {
				return torn, err
			}
			if len(c.sound) > manifest.MaxFiles {
				clear(c.sound)
			}
			c.sound[f] = w
		}
		if f.State.Size == 0 && !e.dir {
			w = torn // truncated, to be written
		}
		if w == torn {
			return torn, nil
		}
		if w == opaque {
			result = opaque
		}
	}
	return result, nil
}
