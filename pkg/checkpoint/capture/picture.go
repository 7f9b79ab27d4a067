package capture

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
)

// timely reports whether to take what is ready now, or to wait for more: for
// what is still being written, and for a moment of quiet when several files
// may belong together.
func (c *Watcher) timely(found map[string]*entry, ready, waiting []*entry, now time.Time) bool {
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
func (c *Watcher) isLog(e *entry) bool {
	if e.dir || e.numbered() {
		return false
	}
	raw, err := readTold(c.dir, e.name)
	return err == nil && utf8.Valid(raw[:min(len(raw), 4096)]) && !slices.Contains(raw, 0)
}

// save makes the picture: what is ready and not older than its like, and what
// did not change and still counts.
func (c *Watcher) save(found map[string]*entry, ready []*entry, now time.Time) (*Picture, error) {
	c.sequence++
	p := &Picture{Save: chunkstore.Save{Stamp: c.stamp, Sequence: c.sequence, Time: now, Dir: c.dir}, seen: map[string]*entry{}}
	s := &p.Save
	for name, e := range found {
		if was := c.base[name]; was != nil && !e.same(was) {
			e = was // what is not ready counts as changed until it is
		} else if was == nil {
			continue
		}
		p.seen[name] = e
	}
	newest, fresh := map[string]int64{}, map[string]bool{} // of the families of what is ready: the last in order; those with a new name
	for _, e := range ready {
		p.seen[e.name] = e
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
		p.entries = append(p.entries, e.name)
		s.Files = append(s.Files, e.files...)
	}
	slices.SortFunc(s.Files, func(a, b dirfs.Found) int { return strings.Compare(a.Path, b.Path) })
	return p, c.describe(s, take, made)
}

// describe finds what a worker resumes from, and the step.
func (c *Watcher) describe(s *chunkstore.Save, take, made []*entry) error {
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
			s.Step, s.Samples, s.Cursor = t.Step, t.Samples, t.cursor()
		}
		if s.Samples == nil {
			s.Samples = t.Samples
		}
	}
	return nil
}
