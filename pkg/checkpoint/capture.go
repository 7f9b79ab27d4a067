package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
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
	dir     tree
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
}

// Watch begins to look for saves that workers of the stamp's generation make
// in dir. What is there already is not theirs: call it before they start.
// resume is what was put back for them, if anything.
func Watch(dir string, stamp Stamp, writers Writers, resume *Manifest) (*Capture, error) {
	t, err := makeTree(dir)
	if err != nil {
		return nil, fmt.Errorf("watch checkpoint directory: %w", err)
	}
	c, err := watch(t, stamp, writers, resume)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch checkpoint directory: %w", err), t.Close())
	}
	return c, nil
}

func watch(t tree, stamp Stamp, writers Writers, resume *Manifest) (*Capture, error) {
	base, err := look(t, nil)
	if err != nil {
		return nil, err
	}
	c := &Capture{
		dir: t, stamp: stamp, writers: writers, base: base, last: base, pause: pauseMin,
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
func (c *Capture) Close() error { return c.dir.Close() }

const (
	pauseMin  = 200 * time.Millisecond
	pauseBusy = 100 * time.Millisecond
	pauseMax  = 5 * time.Second
	idleShare = 1000 // of the time goes into looking while nothing happens: 0.1 %
	busyShare = 20   // while something is being written: 5 %
)

// Pause is how long to wait before the next Look.
func (c *Capture) Pause() time.Duration { return c.pause }

// Look returns a save if a complete one is there that was not taken yet, and
// what it found beyond repair. Whoever puts the save calls Taken then.
func (c *Capture) Look(now time.Time) (*Save, []Refusal, error) {
	began := time.Now()
	save, refused, err := c.look(now, false)
	cost := time.Since(began)
	c.pause = min(max(pauseMin, idleShare*cost), pauseMax)
	if len(c.changed) > 0 && now.Sub(c.moved) < quietStuck {
		c.pause = min(max(pauseBusy, busyShare*cost), pauseMax)
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

func (c *Capture) look(now time.Time, last bool) (*Save, []Refusal, error) {
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

// verdicts on a changed entry.
type completeness int

const (
	unfinished completeness = iota // wait
	complete
	broken // and nobody will finish it
)

func (c *Capture) judge(e *entry, now time.Time, last bool, writing Writing) (completeness, error) {
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
		fresh := e.mark != nil && (was == nil || was.mark == nil || !e.mark.sameBytes(*was.mark)) && e.newest() <= e.mark.Mtime
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
	published := e.top.published() && e.newest() <= e.top.Ctime
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
func (c *Capture) wholeness(e *entry) (wholeness, error) {
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
			if len(c.sound) > maxFiles {
				clear(c.sound)
			}
			c.sound[f] = w
		}
		if f.id.Size == 0 && !e.dir {
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

// timely reports whether to take what is ready now, or to wait for more: for
// what is still being written, and for a moment of quiet when several files
// may belong together.
func (c *Capture) timely(found map[string]*entry, ready, waiting []*entry, now time.Time) bool {
	marked := c.explicit && slices.ContainsFunc(ready, func(e *entry) bool { return e.mark != nil })
	if marked {
		return true
	}
	for _, e := range waiting {
		if n, ok := e.order(); ok && !slices.ContainsFunc(ready, func(r *entry) bool { m, ok := r.order(); return ok && m == n }) {
			continue // the next step is under way already
		}
		if now.Sub(c.changed[e.name]) < logPatience || !c.isLog(e) {
			return false
		}
		c.logs[e.name] = true
	}
	one := len(ready) == 1 && (ready[0].dir && ready[0].numbered() || len(found) == 1 && c.base[ready[0].name] != nil)
	if one {
		return true
	}
	quiet := true
	for _, e := range ready {
		if now.Sub(c.changed[e.name]) >= patience {
			return true
		}
		quiet = quiet && now.Sub(c.since[e.name]) >= quietSet
	}
	return quiet
}

// isLog reports whether an entry that is never quiet is text.
func (c *Capture) isLog(e *entry) bool {
	if e.dir || e.numbered() {
		return false
	}
	raw, err := readTold(c.dir, e.name)
	return err == nil && utf8.Valid(raw[:min(len(raw), 4096)]) && !slices.Contains(raw, 0)
}

// save makes the picture: what is ready and not older than its like, and what
// did not change and still counts.
func (c *Capture) save(found map[string]*entry, ready []*entry, now time.Time) (*Save, error) {
	c.sequence++
	s := &Save{Stamp: c.stamp, Sequence: c.sequence, Time: now, dir: c.dir, seen: map[string]*entry{}}
	for name, e := range found {
		if was := c.base[name]; was != nil && !e.same(was) {
			e = was // what is not ready counts as changed until it is
		} else if was == nil {
			continue
		}
		s.seen[name] = e
	}
	newest, fresh := map[string]int64{}, map[string]bool{} // of the families of what is ready: the last in order; those with a new name
	for _, e := range ready {
		s.seen[e.name] = e
		if n, ok := e.order(); ok {
			newest[e.family()] = max(n, newest[e.family()])
		} else if e.numbered() && c.base[e.name] == nil {
			fresh[e.family()] = true
		}
	}
	var take, made []*entry
	for name, e := range found {
		n, ordered := e.order()
		last, ok := newest[e.family()]
		switch {
		case slices.Contains(ready, e):
			if !ordered || n == last {
				take, made = append(take, e), append(made, e)
			}
		case e.same(c.base[name]) && c.in[name] && !(ordered && ok) && !fresh[e.family()]:
			take = append(take, e)
		}
	}
	slices.SortFunc(take, func(a, b *entry) int { return strings.Compare(a.name, b.name) })
	for _, e := range take {
		s.entries = append(s.entries, e.name)
		s.files = append(s.files, e.files...)
	}
	slices.SortFunc(s.files, func(a, b source) int { return strings.Compare(a.path, b.path) })
	return s, c.describe(s, take, made)
}

// describe finds what a worker resumes from, and the step.
func (c *Capture) describe(s *Save, take, made []*entry) error {
	var main []*entry
	for _, e := range take {
		if _, ok := e.order(); ok || e.dir && e.numbered() {
			main = append(main, e)
		}
	}
	if marked := slices.DeleteFunc(made, func(e *entry) bool { return e.mark == nil }); len(marked) > 0 {
		main = marked
	}
	if main == nil {
		main = take
	}
	if len(main) == 1 {
		s.Entry = main[0].name
	}
	for _, e := range main {
		t, err := progressOf(c.dir, e)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if t.Step != nil && (s.Step == nil || *t.Step > *s.Step) {
			s.Step, s.Samples = t.Step, t.Samples
		}
		if s.Samples == nil {
			s.Samples = t.Samples
		}
	}
	return nil
}
