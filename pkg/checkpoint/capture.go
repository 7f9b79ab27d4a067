package checkpoint

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// Writing says what became of the worker processes of a capture.
type Writing int

const (
	Alive  Writing = iota
	Ended          // by themselves, without a signal
	Killed         // by a signal, in the middle of something perhaps
)

// Writers tells how the worker processes of one generation are.
type Writers func() Writing

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
type Capture struct {
	path    string // of dir; "": it is in no file system
	dir     tree
	notices *notices // nil: there are none
	stamp   Stamp
	writers Writers

	base     map[string]*entry // as they were in the last save taken, or at the start
	in       map[string]bool   // entries of the last save, or of what was resumed from
	last     map[string]*entry // as they were at the last Look
	since    map[string]time.Time
	changed  map[string]time.Time // since when an entry is not as in base
	moved    time.Time            // when anything was written
	explicit bool                 // marks are used here: what has none is not finished
	logs     map[string]bool
	sound    map[source]wholeness
	refused  map[ident]bool
	sequence uint64
	pause    time.Duration
	rest     time.Duration // not below pause
}

// Watch begins to look for saves that workers of the stamp's generation make
// in dir. What is there already is not theirs: call it before they start.
// resume is what was put back for them, if anything.
func Watch(dir string, stamp Stamp, writers Writers, resume *Manifest) (*Capture, error) {
	disk, err := makeTree(dir)
	if err != nil {
		return nil, fmt.Errorf("watch checkpoint directory: %w", err)
	}
	n := newNotices()
	t := n.of(disk)
	c, err := watch(t, stamp, writers, resume)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch checkpoint directory: %w", err), t.Close(), n.close())
	}
	c.path, c.notices = dir, n
	return c, nil
}

func watch(t tree, stamp Stamp, writers Writers, resume *Manifest) (*Capture, error) {
	base, err := look(t, nil)
	if err != nil {
		return nil, err
	}
	c := &Capture{
		dir: t, stamp: stamp, writers: writers, base: base, last: base, pause: pauseMin, rest: pauseMin,
		in: map[string]bool{}, since: map[string]time.Time{}, changed: map[string]time.Time{}, logs: map[string]bool{}, sound: map[source]wholeness{}, refused: map[ident]bool{},
	}
	for name, e := range base {
		c.in[name] = !e.numbered() || resume != nil && resume.names(name)
		c.explicit = c.explicit || e.mark != nil
	}
	return c, nil
}

// names reports whether the manifest has files at or below name.
func (m *Manifest) names(name string) bool {
	return slices.ContainsFunc(m.Files, func(f File) bool { return f.Path == name || strings.HasPrefix(f.Path, name+"/") })
}

// Close ends the watch. Last first, if the workers ended.
func (c *Capture) Close() error { return errors.Join(c.dir.Close(), c.notices.close()) }

const (
	pauseMin  = 200 * time.Millisecond
	pauseBusy = 100 * time.Millisecond
	pauseMax  = 5 * time.Second
	idleShare = 1000 // of the time goes into looking while nothing happens: 0.1 %
	toldShare = 50   // after a notice: 2 %
	busyShare = 20   // while something is being written: 5 %
)

// Pause is how long to wait before the next Look when there is a notice, Rest when there is none.
func (c *Capture) Pause() time.Duration { return c.pause }

// Rest is Pause where nobody would give notice, and while there is something to wait for.
func (c *Capture) Rest() time.Duration { return c.rest }

// Notice tells of the first thing that happened since the last Look, or that one must not count on that.
func (c *Capture) Notice() <-chan struct{} {
	if c.rest == c.pause {
		return nil
	}
	return c.notices.next()
}

// Look returns a save if a complete one is there that was not taken yet, and
// what it found beyond repair. Whoever puts the save calls Taken then.
func (c *Capture) Look(now time.Time) (*Save, []Refusal, error) {
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
func (c *Capture) Last(now time.Time) (*Save, []Refusal, error) { return c.look(now, true) }

// Taken says that the save was put: from here on it is what changes are compared with.
func (c *Capture) Taken(s *Save) {
	c.base, c.in = s.seen, map[string]bool{}
	for _, name := range s.entries {
		c.in[name] = true
	}
	c.changed = map[string]time.Time{}
}

// follow opens the directory that has the path now: scripts clear theirs by
// removing and making it, and what is open is the old one for ever.
func (c *Capture) follow() error {
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
	t, err := openTree(c.path)
	if err != nil {
		return err
	}
	err = c.dir.Close()
	c.dir = c.notices.of(t)
	return err
}

func (c *Capture) look(now time.Time, last bool) (*Save, []Refusal, error) {
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
func (c *Capture) note(found map[string]*entry, now time.Time) {
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
func (c *Capture) picture(found map[string]*entry, changed []*entry, now time.Time, last bool) (*Save, []Refusal, error) {
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
				refused = append(refused, Refusal{Reason: "torn", Path: e.name, Step: t.Step, Err: errors.Join(ErrTorn, err)})
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
