package capture

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/capture/judge"
	"github.com/elasticd/elastic/pkg/checkpoint/capture/notices"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// decide returns a picture of the newest complete save, or else the reasons why there is none.
func (c *Watcher) decide(
	found *listing, fresh []*entry, now time.Time, state WorkerState,
) (*Picture, []Refusal, error) {
	l := judge.Look{Workers: state, Now: now, Began: c.began, Temporary: c.temporary(found),
		Before: now.Add(-min(now.Sub(c.before), c.pause))}
	if c.copied { // the save of the last look was copied since, and changes may be as old as that look
		l.Before = c.before
	}
	c.copied = false
	c.countNumbers(fresh, state)
	for _, name := range slices.Sorted(maps.Keys(found.entries)) {
		u, err := c.unit(found.entries[name], fresh, now, state)
		if err != nil {
			return nil, nil, err
		}
		l.Units = append(l.Units, u)
	}
	var d judge.Decision
	if c.explicit {
		d = c.marked(found, l.Units, now)
	} else {
		d = c.memory.Decide(l)
	}
	if d.Take == nil {
		return nil, c.refuse(found, l.Units, d, instant{now, state}), nil
	}
	p, err := c.picture(found, l.Units, d, now)
	if state == Running && d.Path != "" && now.Sub(c.delay.reported) >= reportAgain {
		c.delay.reported = now
		return p, []Refusal{{Reason: Unsettled, Path: d.Path, Err: unsettled(d)}}, err
	}
	return p, nil, err
}

// unit describes an entry to the judge. all are the fresh entries.
func (c *Watcher) unit(e *entry, all []*entry, now time.Time, state WorkerState) (judge.Unit, error) {
	fresh := slices.Contains(all, e)
	p := c.evidence.passesOf(e.name, state)
	u := judge.Unit{Path: e.name, Key: e.name, Dir: e.dir, Fresh: fresh,
		InLast: c.in[e.name] && !e.shrunk(c.base[e.name]),
		Status: judge.Done, Passes: max(1, p.Times-c.evidence.void[e.name]), First: p.First, Last: p.Last,
		Prior: p.Prior}
	if n, counted := c.number(e); counted && (e.ordered() || !c.several(e)) {
		u.Key, u.Number, u.Counted = e.family(), n, true
		if fresh {
			u.Passes, u.First, u.Last = c.evidence.numbers[u.Key].upTo(n)
		}
	}
	u.Proven = c.proven(e) || c.quietShards(e, now)
	u.Opens, u.Written = c.evidence.opens(e, state), time.Unix(0, e.newest())
	if e.dir {
		u.Shape = e.shape()
	}
	if !fresh {
		return u, nil
	}
	at, why, err := c.evidence.unfinished(e, c.since[e.name], now, state)
	if why == "" && !u.Counted && c.ambiguous(e) {
		at = e.name
		why = "it is not known whether the numbers of such names are those of saves, or of parts of one"
	}
	u.Opaque = c.evidence.opaque(e)
	if why != "" {
		u.Status, u.At, u.Why = judge.Busy, at, why
		c.since[e.name] = now // the quiet time begins when the entry is complete
	}
	u.Since = c.since[e.name]
	if !e.dir && !u.Counted && err == nil {
		if u.Text, u.Log = c.growth.Last(e.name); u.Status == judge.Done {
			u.Text, u.Log, err = c.growth.Of(c.tree, e.name, e.top)
		}
	}
	return u, err
}

// noteGrowth notes when the fresh entries became larger. While they grow, a large save is being
// written.
func (c *Watcher) noteGrowth(fresh []*entry, now time.Time) {
	var bytes int64
	for _, e := range fresh {
		for _, f := range e.files {
			bytes += f.State.Size
		}
	}
	if bytes > c.bytes {
		c.grew = now
	}
	c.bytes = bytes
}

// several reports whether more than one name of the family was written for the same save. Then
// their numbers are those of ranks or parts.
func (c *Watcher) several(e *entry) bool {
	if family := e.family(); c.memory.Counts(family) || c.paced[family] >= enoughPaced {
		return false
	}
	n := 0
	for name, o := range c.last.entries {
		if o.family() == e.family() && (c.in[name] || !o.same(c.base[name])) && c.in[name] == c.in[e.name] {
			n++
		}
	}
	return n > 1
}

// proven reports whether an entry is proven to be complete: by a rename, by a tracker file that
// names it, or by a mark in the directory. A mark that has not changed since the last save, or
// since the watch began, proves nothing.
func (c *Watcher) proven(e *entry) bool {
	if e.named || c.evidence.isRenamed(e, e.name, e.top) {
		return true
	}
	for _, f := range e.files {
		mark := framework(path.Base(f.Path)) && path.Dir(f.Path) == e.name && path.Ext(f.Path) != ".distcp"
		if mark && !c.base[e.name].hasSame(f) {
			return true
		}
	}
	return false
}

// quietShards reports whether the shards of a part have not changed for FirstQuiet. Only the
// .metadata of rank 0 names the shards of a save. If this part lacks a shard, the save stays
// incomplete, and the part is captured again when the shard is there.
func (c *Watcher) quietShards(e *entry, now time.Time) bool {
	return c.workers.Share == Following && e.hasExt(".distcp") && now.Sub(c.since[e.name]) >= judge.FirstQuiet
}

// hasSame reports whether the entry has the file f, in the same state.
func (e *entry) hasSame(f dirfs.Found) bool {
	return e != nil && slices.ContainsFunc(e.files, func(o dirfs.Found) bool {
		return o.Path == f.Path && o.State.SameBytes(f.State)
	})
}

// temporary returns a temporary name beside the entries that is new, or changed, since the last
// save or the start of the watch. It returns "" if there is none.
func (c *Watcher) temporary(found *listing) string {
	for _, name := range slices.Sorted(maps.Keys(found.temps)) {
		if !found.temps[name].SameBytes(c.temps[name]) {
			return name
		}
	}
	return ""
}

// marked decides for a directory in which saves have marks. Only an entry with a mark is a save. A
// file without a mark belongs to the save if it was written before the mark. A file that was
// written later may be of the next save.
func (c *Watcher) marked(found *listing, units []judge.Unit, now time.Time) (d judge.Decision) {
	lastMark := int64(0)
	for _, u := range units {
		if e := found.entries[u.Path]; e.marked(c.base[e.name]) && e.newest() <= e.mark.Mtime {
			d.Wrote = append(d.Wrote, u)
			lastMark = max(lastMark, e.mark.Mtime)
		}
	}
	for _, u := range units {
		e := found.entries[u.Path]
		switch {
		case slices.ContainsFunc(d.Wrote, func(w judge.Unit) bool { return w.Path == u.Path }):
		case !u.Fresh:
			if u.InLast {
				d.Take = append(d.Take, u)
			}
		case e.mark != nil || e.numbered() || e.newest() > lastMark:
		case u.Status == judge.Done:
			d.Take = append(d.Take, u)
		case lastMark <= now.UnixNano() && now.UnixNano() < lastMark+int64(settled):
			return judge.Decision{Path: u.Name(), Why: u.Why} // file times are too coarse
		}
	}
	if d.Wrote == nil {
		return judge.Decision{}
	}
	d.Take = slices.DeleteFunc(d.Take, func(u judge.Unit) bool {
		return u.Counted && slices.ContainsFunc(d.Wrote, func(w judge.Unit) bool {
			return w.Counted && w.Key == u.Key && w.Number != u.Number
		})
	})
	wrote := slices.DeleteFunc(slices.Clone(d.Wrote), func(u judge.Unit) bool {
		return u.Counted && slices.ContainsFunc(d.Wrote, func(w judge.Unit) bool {
			return w.Key == u.Key && w.Number > u.Number
		})
	})
	d.Wrote, d.Take = wrote, append(d.Take, wrote...)
	return d
}

// picture makes the save from the decision.
func (c *Watcher) picture(
	found *listing, units []judge.Unit, d judge.Decision, now time.Time,
) (*Picture, error) {
	c.sequence++
	c.copied = true
	p := &Picture{seen: map[string]*entry{}, decision: d, passes: map[string]notices.Passes{},
		Save: chunkstore.Save{Stamp: c.stamp, Sequence: c.sequence, Time: now, Dir: c.tree,
			Directories: []string{}}}
	s := &p.Save
	var take, wrote []*entry
	for _, u := range d.Take {
		e := found.entries[u.Path]
		take = append(take, e)
		if slices.ContainsFunc(d.Wrote, func(w judge.Unit) bool { return w.Path == u.Path }) {
			wrote = append(wrote, e)
		}
	}
	for _, u := range units {
		e, was := found.entries[u.Path], c.base[u.Path]
		switch {
		case slices.Contains(take, e), u.Obsolete(d.Wrote):
			p.seen[u.Path], p.passes[u.Path] = e, c.evidence.passes[u.Path]
		case was != nil:
			p.seen[u.Path] = was // an entry that is not taken stays fresh
		}
	}
	slices.SortFunc(take, func(a, b *entry) int { return strings.Compare(a.name, b.name) })
	for _, e := range take {
		p.entries = append(p.entries, e.name)
		if e.dir {
			s.Directories = append(s.Directories, e.name)
		}
		for _, f := range e.files {
			f.Unsure = c.evidence.unsure[e.name]
			s.Files = append(s.Files, f)
		}
	}
	slices.SortFunc(s.Files, func(a, b dirfs.Found) int { return strings.Compare(a.Path, b.Path) })
	next := c.memory.Clone()
	next.Taken(d)
	s.Written, s.Reopened = next.Keys(), next.Reopened()
	return p, c.describe(s, take, wrote)
}

// describe sets the path from which a worker resumes, the step, and the samples.
func (c *Watcher) describe(s *chunkstore.Save, take, wrote []*entry) error {
	var main []*entry
	for _, e := range take {
		if _, ok := e.order(); ok || e.dir {
			main = append(main, e)
		}
	}
	if marked := slices.DeleteFunc(slices.Clone(wrote),
		func(e *entry) bool { return e.mark == nil }); len(marked) > 0 {
		main = marked
	}
	if main == nil {
		main = take
	}
	s.Entry = main[0].name
	for _, e := range main[1:] {
		s.Entry = manifest.CommonPath(s.Entry, e.name)
	}
	for _, e := range main {
		t, err := progressOf(c.tree, e)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if t.Step != nil && (s.Step == nil || *t.Step > *s.Step) {
			s.Step, s.Samples, s.Cursor = t.Step, t.Samples, t.cursor()
		}
		if s.Samples == nil {
			s.Samples = t.Samples
		}
	}
	return nil
}

// How often a save that is not taken is reported.
const (
	reportAfter = 8 * time.Second
	reportAgain = time.Minute
)

// delay says since when a save waits to be taken.
type delay struct {
	began    time.Time
	reported time.Time // when the delay was last reported
}

// ErrUnsettled means that a save is not known to be complete.
var ErrUnsettled = errors.New("a save is not taken yet")

// instant is the time of a look, and the state of the workers just before it.
type instant struct {
	now     time.Time
	workers WorkerState
}

// refuse reports a save that has waited for too long. When the workers have ended, it reports each
// fresh entry once.
func (c *Watcher) refuse(found *listing, units []judge.Unit, d judge.Decision, at instant) []Refusal {
	now := at.now
	if at.workers != Running {
		return c.refuseAll(found, units, d)
	}
	if d.Path == "" {
		return nil
	}
	if c.delay.began.IsZero() {
		c.delay.began = now
	}
	growing := now.Sub(c.grew) < 2*time.Second && len(c.evidence.writers) > 0
	early := now.Sub(c.delay.began) < reportAfter+d.Quiet
	if growing || early || !c.delay.reported.IsZero() && now.Sub(c.delay.reported) < reportAgain {
		return nil
	}
	c.delay.reported = now
	return []Refusal{{Reason: Unsettled, Path: d.Path, Err: unsettled(d)}}
}

func unsettled(d judge.Decision) error {
	return fmt.Errorf("%w: %s: %s; if the save is complete, say so with .elastic-commit",
		ErrUnsettled, d.Path, d.Why)
}

// refuseAll refuses the fresh entries when the workers have ended and no save was taken.
func (c *Watcher) refuseAll(found *listing, units []judge.Unit, d judge.Decision) (refused []Refusal) {
	for _, u := range units {
		if !u.Fresh {
			continue
		}
		e := found.entries[u.Path]
		if c.refused[e.top] || c.explicit && e.mark == nil && !e.numbered() && u.Status == judge.Done {
			continue
		}
		c.refused[e.top] = true
		why := u.Name() + ": " + u.Why
		if u.Why == "" && d.Path != "" {
			why = d.Path + ": " + d.Why
		}
		t, err := progressOf(c.tree, e)
		refused = append(refused, Refusal{Reason: Torn, Path: u.Name(), Step: t.Step,
			Err: errors.Join(fmt.Errorf("%w: %s", chunkstore.ErrTorn, why), err)})
	}
	return refused
}
