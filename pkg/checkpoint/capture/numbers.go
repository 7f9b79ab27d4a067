package capture

import (
	"maps"
	"path"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint/capture/notices"
)

// numbers has the passes of each number in the names of one family since the last save. It includes
// names that are gone.
type numbers map[int64]notices.Passes

// upTo returns how many numbers there are up to n, at least 1, and the first and the last pass of
// any of them.
func (c numbers) upTo(n int64) (count int, first, last uint64) {
	for k, p := range c {
		if k > n {
			continue
		}
		if count++; p.Times > 0 && (first == 0 || p.First < first) {
			first = p.First
		}
		last = max(last, p.Last)
	}
	return max(1, count), first, last
}

// countNumbers collects the numbers of the fresh entries, and of names that were written and are
// gone.
func (c *Watcher) countNumbers(fresh []*entry, state WorkerState) {
	v := c.evidence
	v.numbers = map[string]numbers{}
	add := func(e *entry) {
		n, ok := c.number(e)
		if !ok {
			return
		}
		family := e.family()
		if v.numbers[family] == nil {
			v.numbers[family] = numbers{}
		}
		p := v.passesOf(e.name, state)
		for _, f := range e.files {
			p = p.Or(v.passesOf(f.Path, state))
		}
		v.numbers[family][n] = v.numbers[family][n].Or(p)
	}
	for _, e := range fresh {
		add(e)
	}
	for name := range v.passes {
		if c.last.entries[name] == nil && !passing(path.Base(name)) {
			add(&entry{name: name})
		}
	}
}

// uncount notes that the numbers of a family do not count saves.
func (c *Watcher) uncount(family string) {
	if c.shards[family] {
		return
	}
	c.shards[family] = true
	var names []string
	for name, e := range c.base {
		if e.family() == family {
			names = append(names, name)
		}
	}
	c.memory.Uncount(family, names)
}

// number returns the number of a name that may count saves: the number of a step, or else the last
// number in the name. Where the numbers of the family are known not to count saves, only the number
// of a step is returned.
func (c *Watcher) number(e *entry) (int64, bool) {
	if n, ok := e.order(); ok || c.shards[e.family()] {
		return n, ok
	}
	return lastNumber(path.Base(e.name))
}

// enoughPaced is how many names of a family must appear after a pause before their numbers count
// saves. None of them may be written again.
const enoughPaced = 2

// pace notes for each family whether its new names appear one at a time, with pauses between them.
// Then their numbers may count saves. Names that appear at once are parts of one save.
func (c *Watcher) pace(found *listing) {
	came := map[string]int{}
	for name, e := range found.entries {
		if c.last.entries[name] == nil && e.numbered() && !e.ordered() {
			came[e.family()]++
		}
	}
	there := map[string]bool{}
	for name, e := range c.last.entries {
		if !e.same(c.base[name]) {
			there[e.family()] = true
		}
	}
	for family, n := range came {
		switch {
		case c.paced[family] >= enoughPaced:
		case n > 1 || there[family] && !c.still:
			c.paced[family] = atOnce
		case there[family] && c.paced[family] != atOnce:
			c.paced[family]++
		}
	}
}

// atOnce is the value in paced of a family of which several names were written at once.
const atOnce = -1

// ambiguous reports whether the name is one of two that appeared with a pause between them. Their
// numbers may be those of saves, or of parts of one save.
func (c *Watcher) ambiguous(e *entry) bool {
	family := e.family()
	return !c.shards[family] && e.numbered() && !e.ordered() && c.paced[family] == 1 && c.several(e)
}

// ordered reports whether the words of the name say that its number counts steps.
func (e *entry) ordered() bool { _, ok := e.order(); return ok }

// annotated reports whether the directory is of an older step than the last save, and some of its
// files have not changed. Files that were added since are about that step, like the result of an
// evaluation.
func (c *Watcher) annotated(e *entry) bool {
	o := c.base[e.name]
	n, ordered := e.order()
	if o == nil || !e.dir || !ordered || e.top.Ino != o.top.Ino || e.marked(o) ||
		!slices.ContainsFunc(e.files, o.hasSame) {
		return false
	}
	for name := range c.in {
		last := entry{name: name}
		if newest, _ := last.order(); last.family() == e.family() && newest > n {
			return true
		}
	}
	return false
}

// marked reports whether the mark was written since the look that found o.
func (e *entry) marked(o *entry) bool {
	return e.mark != nil && (o == nil || o.mark == nil || !e.mark.SameBytes(*o.mark))
}

// forget drops the evidence about names that are gone. Without it the maps would grow as long as
// the generation runs.
func (c *Watcher) forget() {
	v := c.evidence
	there := map[string]bool{}
	for name, e := range c.last.entries {
		there[name] = true
		for _, f := range e.files {
			there[f.Path] = true
		}
	}
	gone := func(name string) bool { return !there[name] && v.passes[name].Last <= v.settled }
	deleteNames(v.closed, gone)
	deleteNames(v.renamed, gone)
	deleteNames(v.void, gone)
	deleteNames(v.voided, gone)
	deleteNames(v.torn, gone)
	deleteNames(v.unnoticed, gone)
	deleteNames(v.written, gone)
	deleteNames(v.passes, gone) // last: gone reads it
}

// deleteNames deletes the entries of m whose names are gone.
func deleteNames[V any](m map[string]V, gone func(string) bool) {
	maps.DeleteFunc(m, func(name string, _ V) bool { return gone(name) })
}

// lastNumber returns the last number in a name.
func lastNumber(name string) (int64, bool) {
	all := digits.FindAllString(name, -1)
	if all == nil {
		return 0, false
	}
	return parse(all[len(all)-1])
}
