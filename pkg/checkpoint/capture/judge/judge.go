// Package judge decides which of the files in a checkpoint directory are one complete save.
//
// It knows two things. A unit is complete by evidence: its writer closed it, it was renamed to
// its name, or a mark says so; the caller collects that. Units belong together by experience:
// those that were written in the last save are all written again before the next one is taken,
// each as often as then. Nothing is complete because some time passed, but for the first save:
// which files belong to it is not known yet.
package judge

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Status is how far a unit is.
type Status int

const (
	Busy Status = iota // it is being written, or nothing shows that its writer is through with it
	Done
	Broken // and it is not written any more
)

// Unit is written as one: a file, or a directory of one step.
type Unit struct {
	Path    string
	Key     string // the same in each save: the path, without its numbers if it is counted
	Counted bool   // its name counts steps, by Number
	Number  int64
	Dir     bool
	Proven  bool   // a mark or a rename says that it is complete as it is
	Shape   string // the names of the files in a directory
	Text    bool   // it has text in it, and nothing else
	Log     bool   // text that was seen to grow: it is no save, and no save waits for it
	Opaque  bool   // the format of a file does not tell whether that is whole
	Status  Status
	At, Why string // for people: which file is not Done, and why

	Fresh  bool      // not as it was in the last save
	InLast bool      // part of the last save
	Passes int       // how often it was completed since the last save; of counted ones: how many numbers
	Since  time.Time // of its last change
	// First and Last give the order in which the units were completed: for the first time since the
	// last save, and for the last time. Prior is the time before Last. 0: not known, or none.
	First, Last, Prior uint64
	// Opens is how often it was closed since the last save, in a directory the file that was closed most
	// often. 0: not known, or never.
	Opens   int
	Written time.Time     // of its newest file
	quiet   time.Duration // how long it must not change
}

// Name is the file to name when the unit is not complete.
func (u Unit) Name() string { return cmp.Or(u.At, u.Path) }

// begun reports whether the unit was not completed since the last save.
func (u Unit) begun() bool { return u.Status == Busy && u.Last == 0 }

// Obsolete reports whether one of the units counts more than this one of the same kind.
func (u Unit) Obsolete(wrote []Unit) bool {
	return u.Counted && slices.ContainsFunc(wrote, func(w Unit) bool {
		return w.Counted && w.Key == u.Key &&
			w.Number > u.Number
	})
}

// Workers is what became of those that write: the worst of them.
type Workers int

const (
	Running Workers = iota
	Exited          // by themselves, and none said by its status that it failed
	Failed          // by themselves, and one said so: an exception closes what is being written
	Killed          // by a signal
)

// Look is one look at the directory.
type Look struct {
	Units     []Unit
	Workers   Workers
	Now       time.Time
	Began     time.Time // of the watch: the workers started then
	Before    time.Time // the earliest time of what was not seen by the look before
	Temporary string    // a file of a temporary name beside the units, if there is one
}

// Decision is what to do after a look.
type Decision struct {
	Take  []Unit // the units of a complete save: fresh ones, and unchanged ones that belong to it
	Wrote []Unit // those of Take that this save wrote
	Left  []Unit // written since the last save and in no save: to which they belong is not known
	Guess bool   // taken because nothing changed for a while: more may belong to it
	// Path and Why name what a save waits for, if there is something fresh and nothing to take, and a
	// file that one more save is taken without.
	Path, Why string
	Quiet     time.Duration // it is taken when nothing of it has changed for so long
}

const (
	// apartAfter is how often the others are written, before they are written once more, when a unit
	// is known to be written apart from them.
	apartAfter = 3
	// chatter is how often a unit is written between two saves before it is known to be a log.
	chatter = 5
)

// Memory is what earlier saves of the generation taught. The zero value knows nothing.
type Memory struct {
	passes map[string]int // by key: how often a save completes it; nil: no save was seen. 0: not known
	apart  map[string]bool
	shapes map[string]string
	at     time.Time // of the last write of the last save; zero: no save was seen
	order  []string  // of those that each save writes, as the last save wrote them
	orders int       // how many saves in a row wrote them in that order
	// together: files were written at the same time
	together bool
	unsure   bool                // the last save was taken by a guess: units that come may belong to it
	debt     map[string]int      // by key: how many passes of a newcomer belong to saves before the next one
	left     map[string]absence  // by key: newcomers that the last save left out
	stood    map[string]absence  // by key: of units that no save had, when each was written last
	openings map[string]openings // by key
	resumed  bool                // the workers began from a checkpoint
}

// Remember starts with what an earlier generation, from whose checkpoint the workers began, knew: its
// Keys.
func (m *Memory) Remember(keys []string) {
	m.resumed = true
	if len(keys) == 0 {
		return
	}
	m.passes = map[string]int{}
	for _, k := range keys {
		m.passes[k]++
		m.setOpenings(k, openings{usual: 1})
	}
}

// RememberShape starts with the names of the files in a directory of the checkpoint before.
func (m *Memory) RememberShape(key, shape string) {
	if m.shapes == nil {
		m.shapes = map[string]string{}
	}
	m.shapes[key] = shape
}

// Keys are those that each save writes, in order, and each as often as a save writes it; nil while
// that is not known.
func (m *Memory) Keys() (keys []string) {
	if m.unsure {
		return nil
	}
	for _, k := range m.keys() {
		keys = append(keys, slices.Repeat([]string{k}, m.passes[k])...)
	}
	return keys
}

// Counts reports whether the last save had a name of the family that counts something.
func (m *Memory) Counts(family string) bool { return m.passes[family] > 0 }

func (m *Memory) keys() []string {
	var keys []string
	for k := range m.passes {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Uncount says that the numbers in the names of a family count nothing: names are its files up to
// the last save, which are units of their own and belong together. What came since then may be one more.
func (m *Memory) Uncount(family string, names []string) {
	if _, ok := m.passes[family]; !ok {
		return
	}
	delete(m.passes, family)
	for _, name := range names {
		m.passes[name] = 1
	}
	m.unsure = true
}

// Clone is a Memory that learns on its own.
func (m *Memory) Clone() *Memory {
	c := *m
	c.passes, c.apart, c.shapes = maps.Clone(m.passes), maps.Clone(m.apart), maps.Clone(m.shapes)
	c.debt, c.left, c.stood = maps.Clone(m.debt), maps.Clone(m.left), maps.Clone(m.stood)
	c.openings = maps.Clone(m.openings)
	return &c
}

// Taken learns from a save that was taken.
func (m *Memory) Taken(d Decision) {
	known := m.passes
	if m.passes = maps.Clone(known); m.passes == nil {
		m.passes = map[string]int{}
	}
	rounds := m.rounds(d.Wrote)
	for _, u := range d.Wrote {
		if u.Dir && u.Shape != "" {
			m.RememberShape(u.Key, u.Shape)
		}
		switch {
		case m.apart[u.Key]:
		case u.Counted:
			m.passes[u.Key] = 1
		default:
			m.passes[u.Key] = max(1, (u.Passes-m.debt[u.Key])/rounds)
		}
	}
	m.noteLeft(d, rounds)
	m.noteOrder(d.Wrote)
	for _, u := range d.Wrote {
		if u.Since.After(m.at) {
			m.at = u.Since
		}
	}
	m.takenOpenings(d)
	m.unsure, m.debt, m.stood = d.Guess, nil, nil
}

func (m *Memory) setApart(key string) {
	if m.apart == nil {
		m.apart = map[string]bool{}
	}
	m.apart[key] = true
	delete(m.passes, key)
}

// Decide finds the newest complete save. Units that may be opened once more become Busy.
func (m *Memory) Decide(l Look) Decision {
	m.noteOpenings(l)
	m.settle(l)
	m.separate(l.Units)
	m.replace(l.Units)
	m.owe(l.Units)
	var numbers []int64
	flat := false
	for _, u := range l.Units {
		if u.Fresh && u.Counted {
			numbers = append(numbers, u.Number)
		}
		flat = flat || u.Fresh && !u.Counted && !u.Log
	}
	slices.SortFunc(numbers, func(a, b int64) int { return cmp.Compare(b, a) })
	numbers = slices.Compact(numbers)
	var first Decision
	for _, n := range numbers {
		d := m.try(l, &n)
		if d.Take != nil {
			return d
		}
		if first.Path == "" {
			first = d
		}
	}
	if len(numbers) == 0 && flat {
		return m.try(l, nil)
	}
	return first
}

// separate finds units that are not written together with the others.
func (m *Memory) separate(units []Unit) {
	most, least := 0, 0
	steps := map[string]int{} // by key: numbers that are fresh
	for _, u := range units {
		switch {
		case !u.Fresh || u.Log || m.apart[u.Key] || m.newcomer(u) && !u.Counted:
		case u.Counted:
			steps[u.Key]++
			most = max(most, steps[u.Key])
		default:
			n := u.Passes / max(1, m.passes[u.Key])
			most = max(most, n)
			if n > 0 && (least == 0 || n < least) {
				least = n
			}
		}
	}
	for key := range m.passes {
		if most > apartAfter && steps[key] == 0 &&
			!slices.ContainsFunc(units, func(u Unit) bool { return u.Key == key && u.Fresh }) {
			m.setApart(key)
		}
	}
	for _, u := range units {
		if !u.Fresh || u.Counted || u.Log || m.apart[u.Key] {
			continue
		}
		was, absent := m.left[u.Key]
		stays := absent && was.passes == u.Passes && was.rounds+most > apartAfter ||
			!m.belongs(u) && most-m.stoodAt(u, most) > apartAfter
		often := least > 0 && (u.Passes-was.passes)/max(1, m.passes[u.Key]) >= chatter*max(1, least)
		if often || stays {
			m.setApart(u.Key)
		}
	}
}

// try decides about the save of the step number, or about one without a number.
func (m *Memory) try(l Look, number *int64) Decision {
	var wrote []Unit
	for _, u := range l.Units {
		if !u.Fresh || u.Log || u.Counted && (number == nil || u.Number != *number) {
			continue
		}
		wrote = append(wrote, u)
	}
	why := m.lacks(l, wrote, number)
	if why.Why != "" {
		return why
	}
	wrote, left := m.leaveOut(slices.DeleteFunc(wrote, func(u Unit) bool { return u.Status != Done }))
	if len(wrote) == 0 {
		return Decision{}
	}
	d := Decision{Take: append(slices.Clone(wrote), m.beside(l.Units, wrote)...), Wrote: wrote, Left: left,
		Guess: why.Guess}
	for _, u := range left {
		if _, before := m.left[u.Key]; before {
			d.Path = u.Path
			d.Why = "saves are taken without it: " +
				"no save had it before, and it is not known to which it belongs"
		}
	}
	return d
}

// beside are the units that did not change and still belong to the save: all of the last one but
// what the new one makes obsolete.
func (m *Memory) beside(units, wrote []Unit) (take []Unit) {
	for _, u := range units {
		replaced := u.Counted &&
			slices.ContainsFunc(wrote, func(w Unit) bool { return w.Counted && w.Key == u.Key })
		if !u.Fresh && u.InLast && !replaced {
			take = append(take, u)
		}
	}
	return take
}

// lacks says why the units are no complete save; the zero Decision if they are.
func (m *Memory) lacks(l Look, wrote []Unit, number *int64) Decision {
	alone := !slices.ContainsFunc(wrote, m.belongs) // nothing of it was in a save before
	for _, u := range wrote {
		required := u.Counted || m.belongs(u) || u.InLast || alone && !m.apart[u.Key]
		if u.Status != Done && required {
			return Decision{Path: u.Name(), Why: u.Why, Quiet: u.quiet}
		}
	}
	for _, u := range wrote {
		if u.Dir && u.Counted && !u.Proven && !m.shaped(u) && l.Workers != Exited &&
			!m.superseded(l.Units, u) {
			return Decision{Path: u.Name(), Why: "nothing shows that no more files come into this directory"}
		}
	}
	if number != nil {
		if why := m.lacksFamily(l, wrote, *number); why.Why != "" {
			return why
		}
	}
	if alone {
		return m.lacksFirst(l, wrote)
	}
	return m.lacksTogether(wrote, number)
}

func (m *Memory) belongs(u Unit) bool {
	_, ok := m.passes[u.Key]
	return ok
}

func (m *Memory) shaped(u Unit) bool {
	shape, ok := m.shapes[u.Key]
	return ok && shape == u.Shape
}

// superseded reports whether the next directory of its kind was begun.
func (m *Memory) superseded(units []Unit, u Unit) bool {
	return slices.ContainsFunc(units, func(o Unit) bool {
		return o.Fresh && o.Counted && o.Key == u.Key &&
			o.Number > u.Number
	})
}
