// Package capture finds complete saves in a checkpoint directory.
// docs/CHECKPOINTS.md has its rules.
package capture

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// Writing says what became of the worker processes of a capture.
type WorkerState int

const (
	Running WorkerState = iota
	Exited              // by themselves, without a signal
	Killed              // by a signal, in the middle of something perhaps
)

// Writers tells how the worker processes of one generation are.
type Workers func() WorkerState

// How long a save must have been quiet. A file that was renamed to its name,
// or tells by its format that it is whole, is complete at once; these times
// are for those that say less, and for several files that belong together.
const (
	quietSet    = 300 * time.Millisecond // several files, or one that a framework marks
	quietOpaque = time.Second            // a format that we do not know
	quietStuck  = 10 * time.Second       // what looks unfinished, but nobody goes on writing
	patience    = 3 * time.Second        // several files that are never quiet together
	logPatience = 5 * time.Second        // text that grows all the time is a log
	settled     = 50 * time.Millisecond  // the grain of file times, and more
)

// Refusal is a save that is not taken. Reason is one of the contract's words.
type Refusal struct {
	Reason string // torn, no-space, bad-path, too-few-nodes, fenced
	Path   string
	Step   *int64
	Err    error
}

// Capture looks for saves of one generation in one directory. It belongs to
// one goroutine, which calls Look now and then.
type Watcher struct {
	path    string // of dir; "": it is in no file system
	dir     dirfs.Reader
	notices *notices // nil: there are none
	stamp   manifest.Stamp
	writers Workers

	base     map[string]*entry // as they were in the last save taken, or at the start
	in       map[string]bool   // entries of the last save, or of what was resumed from
	last     map[string]*entry // as they were at the last Look
	since    map[string]time.Time
	changed  map[string]time.Time // since when an entry is not as in base
	moved    time.Time            // when anything was written
	explicit bool                 // marks are used here: what has none is not finished
	logs     map[string]bool
	sound    map[dirfs.Found]wholeness
	refused  map[dirfs.FileState]bool
	sequence uint64
	pause    time.Duration
	rest     time.Duration // not below pause
}

// Picture is a save that was found, and the state of the directory in which it was found.
type Picture struct {
	Save    chunkstore.Save
	seen    map[string]*entry // all that was in the directory, for Taken
	entries []string          // those of them that are in the save
}

// Stamp says whose workers write what is looked for.
func (c *Watcher) Stamp() manifest.Stamp { return c.stamp }

// Watch begins to look for saves that workers of the stamp's generation make
// in dir. What is there already is not theirs: call it before they start.
// resume is what was put back for them, if anything.
func Watch(dir string, stamp manifest.Stamp, writers Workers, resume *manifest.Manifest) (*Watcher, error) {
	disk, err := dirfs.Make(dir)
	if err != nil {
		return nil, fmt.Errorf("watch checkpoint directory: %w", err)
	}
	n := newNotices()
	t := n.of(disk)
	c, err := WatchFS(t, stamp, writers, resume)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch checkpoint directory: %w", err), t.Close(), n.close())
	}
	c.path, c.notices = dir, n
	return c, nil
}

func WatchFS(t dirfs.Reader, stamp manifest.Stamp, writers Workers, resume *manifest.Manifest) (*Watcher, error) {
	base, err := look(t, nil)
	if err != nil {
		return nil, err
	}
	c := &Watcher{
		dir: t, stamp: stamp, writers: writers, base: base, last: base, pause: pauseMin, rest: pauseMin,
		in: map[string]bool{}, since: map[string]time.Time{}, changed: map[string]time.Time{}, logs: map[string]bool{}, sound: map[dirfs.Found]wholeness{}, refused: map[dirfs.FileState]bool{},
	}
	for name, e := range base {
		c.in[name] = !e.numbered() || resume != nil && resume.Contains(name)
		c.explicit = c.explicit || e.mark != nil
	}
	return c, nil
}

// Close ends the watch. Last first, if the workers ended.
func (c *Watcher) Close() error { return errors.Join(c.dir.Close(), c.notices.close()) }

const (
	pauseMin  = 200 * time.Millisecond
	pauseBusy = 100 * time.Millisecond
	pauseMax  = 5 * time.Second
	idleShare = 1000 // of the time goes into looking while nothing happens: 0.1 %
	toldShare = 50   // after a notice: 2 %
	busyShare = 20   // while something is being written: 5 %
)

// Pause is how long to wait before the next Look when there is a notice, Rest when there is none.
func (c *Watcher) Pause() time.Duration { return c.pause }

// Rest is Pause where nobody would give notice, and while there is something to wait for.
func (c *Watcher) Rest() time.Duration { return c.rest }

// Notice tells of the first thing that happened since the last Look, or that one must not count on that.
func (c *Watcher) Notice() <-chan struct{} {
	if c.rest == c.pause {
		return nil
	}
	return c.notices.next()
}

// Look returns a save if a complete one is there that was not taken yet, and
// what it found beyond repair. Taken follows when the save was put.
func (c *Watcher) Look(now time.Time) (*Picture, []Refusal, error) {
	began := time.Now()
	c.notices.begin()
	save, refused, err := c.look(now, false)
	cost := time.Since(began)
	c.pause = min(max(pauseMin, idleShare*cost), pauseMax)
	busy := len(c.changed) > 0 && now.Sub(c.moved) < quietStuck
	if busy {
		c.pause = min(max(pauseBusy, busyShare*cost), pauseMax)
	}
	c.rest = c.pause
	if !busy && err == nil && c.notices.all() { // nobody looks for nothing
		c.rest, c.pause = pauseMax, min(max(pauseMin, toldShare*cost), pauseMax)
	}
	return save, refused, err
}

// Last is Look for the time when the workers ended: there is nothing to wait for any more.
func (c *Watcher) Last(now time.Time) (*Picture, []Refusal, error) { return c.look(now, true) }

// Taken says that the save was put: from here on it is what changes are compared with.
func (c *Watcher) Taken(p *Picture) {
	c.base, c.in = p.seen, map[string]bool{}
	for _, name := range p.entries {
		c.in[name] = true
	}
	c.changed = map[string]time.Time{}
}

// follow opens the directory that has the path now: scripts clear theirs by
// removing and making it, and what is open is the old one for ever.
func (c *Watcher) follow() error {
	if c.path == "" {
		return nil
	}
	now, err := os.Stat(c.path)
	if err != nil {
		return err
	}
	was, err := c.dir.Lstat(".")
	if err == nil && os.SameFile(was, now) {
		return nil
	}
	t, err := dirfs.Open(c.path)
	if err != nil {
		return err
	}
	err = c.dir.Close()
	c.dir = c.notices.of(t)
	return err
}

func (c *Watcher) look(now time.Time, last bool) (*Picture, []Refusal, error) {
	if err := c.follow(); err != nil {
		return nil, nil, err
	}
	found, err := look(c.dir, c.base)
	if err != nil {
		return nil, nil, err
	}
	c.note(found, now)
	var changed []*entry
	for name := range c.changed {
		changed = append(changed, found[name])
	}
	if len(changed) == 0 {
		return nil, nil, nil
	}
	slices.SortFunc(changed, func(a, b *entry) int { return strings.Compare(a.name, b.name) })
	return c.picture(found, changed, now, last)
}

// note remembers since when each entry is as it is.
func (c *Watcher) note(found map[string]*entry, now time.Time) {
	for name, e := range found {
		if !e.same(c.last[name]) {
			c.since[name], c.moved = now, now
		}
		if e.same(c.base[name]) || c.logs[name] {
			delete(c.changed, name)
		} else if _, ok := c.changed[name]; !ok {
			c.changed[name] = now
		}
		c.explicit = c.explicit || e.mark != nil
	}
	gone := func(name string, _ time.Time) bool { return found[name] == nil }
	maps.DeleteFunc(c.since, gone)
	maps.DeleteFunc(c.changed, gone)
	c.last = found
}

// picture decides what of the changed entries is complete, and whether that
// is a save: when nothing that may belong to it is still being written.
func (c *Watcher) picture(found map[string]*entry, changed []*entry, now time.Time, last bool) (*Picture, []Refusal, error) {
	writing := c.writers()
	var ready, waiting []*entry
	var refused []Refusal
	for _, e := range changed {
		v, err := c.judge(e, now, last, writing)
		if err != nil {
			return nil, nil, err
		}
		switch v {
		case complete:
			ready = append(ready, e)
		case unfinished:
			waiting = append(waiting, e)
		case broken:
			if !c.refused[e.top] {
				c.refused[e.top] = true
				t, err := progressOf(c.dir, e)
				refused = append(refused, Refusal{Reason: "torn", Path: e.name, Step: t.Step, Err: errors.Join(chunkstore.ErrTorn, err)})
			}
			c.base[e.name], c.in[e.name] = e, false // until it changes again
			delete(c.changed, e.name)
		}
	}
	if len(ready) == 0 || !last && !c.timely(found, ready, waiting, now) {
		return nil, refused, nil
	}
	save, err := c.save(found, ready, now)
	return save, refused, err
}
