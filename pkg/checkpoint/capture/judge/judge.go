// Package judge decides which of the files in a checkpoint directory are one complete save.
//
// It has two rules. A unit is complete by evidence that the caller collects: its writer closed it,
// it was renamed to its name, or a mark says so. Units belong together by experience: a save is
// taken when all units of the last save were written again, each as often as in the last save.
// Time alone never completes a save. The first save is the exception: its units are not known, so
// it is taken when nothing has changed for a while.
package judge

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Status says whether a unit is complete.
type Status int

const (
	Busy Status = iota // it is being written, or nothing shows that its writer has finished it
	Done
)

// Unit is a file, or the directory of one step. Its writer writes it as a whole.
type Unit struct {
	Path    string
	Key     string // the same in each save: the path, without its numbers if the unit is counted
	Counted bool   // Number in its name counts saves
	Number  int64
	Dir     bool
	Proven  bool   // a mark or a rename proves that it is complete
	Shape   string // the names of the files in a directory
	Text    bool   // it has only text
	Log     bool   // text that grows: it belongs to no save, and no save waits for it
	Opaque  bool   // a file of it has a format that cannot be checked
	Status  Status
	At, Why string // for messages: which file is not Done, and why

	Fresh  bool      // it has changed since the last save
	InLast bool      // it belongs to the last save
	Passes int       // how often it was completed since the last save; if counted, how many numbers
	Since  time.Time // of its last change
	// First and Last order the units by when they were completed: for the first time since the last
	// save, and for the last time. Prior is the time before Last. 0: not known, or none.
	First, Last, Prior uint64
	// Opens is how often the unit was closed since the last save. For a directory it is the count
	// of the file that was closed most often. 0: not known, or never.
	Opens   int
	Written time.Time     // when its newest file was written
	quiet   time.Duration // how long it must not change
}

// Name returns the file to report when the unit is not complete.
func (u Unit) Name() string { return cmp.Or(u.At, u.Path) }

// begun reports whether the unit is being written, and was not completed since the last save.
func (u Unit) begun() bool { return u.Status == Busy && u.Last == 0 }

// Obsolete reports whether wrote has a unit of the same key with a larger number.
func (u Unit) Obsolete(wrote []Unit) bool {
	return u.Counted && slices.ContainsFunc(wrote, func(w Unit) bool {
		return w.Counted && w.Key == u.Key && w.Number > u.Number
	})
}

// Workers says whether the workers run, and how they ended. The worst end of any worker counts.
type Workers int

const (
	Running Workers = iota
	Exited          // all exited with status 0
	Failed          // one exited with an error: an exception closes the files that it was writing
	Killed          // one was killed by a signal
)

// Look is one look at the directory.
type Look struct {
	Units     []Unit
	Workers   Workers
	Now       time.Time
	Began     time.Time // when the workers started
	Before    time.Time // changes that the look before did not see are not older than this
	Temporary string    // a temporary name beside the units; "" if there is none
}

// Decision is the result of a look.
type Decision struct {
	Take  []Unit // the units of a complete save: fresh ones, and unchanged ones that belong to it
	Wrote []Unit // those of Take that this save wrote
	Left  []Unit // written since the last save, but the save to which they belong is not known
	Guess bool   // taken because nothing changed for a while: other units may belong to it
	// Path and Why name a file for which a save waits. If there is a save to take, they name a file
	// that is left out again.
	Path, Why string
	Quiet     time.Duration // how long the save must not change before it is taken
}

const (
	// apartAfter is a number of rounds. A unit is known to be apart from the others when they were
	// written more often than this without it.
	apartAfter = 3
	// chatter is how many times as often as the others a unit is written if it is apart from them.
	chatter = 5
)

// Memory is what earlier saves of the generation have shown. The zero value knows nothing.
type Memory struct {
	passes map[string]int    // by key: how often a save completes it (0: not known); nil: no save yet
	apart  map[string]bool   // by key: written independently of saves
	shapes map[string]string // by key: the shape of the directory in the last save
	at     time.Time         // of the last write of the last save; zero: no save yet
	order  []string          // keys in the order in which the last save wrote them
	orders int               // how many saves in a row wrote them in that order

	together bool                // two files were written at the same time
	unsure   bool                // the last save was a guess: later units may belong to it
	debt     map[string]int      // by key: passes of a newcomer that belong to earlier saves
	left     map[string]absence  // by key: newcomers that the last save left out
	stood    map[string]absence  // by key: units that no save had, when each was written last
	openings map[string]openings // by key
	resumed  bool                // the workers began from a checkpoint
}

// Remember starts with the Keys of the earlier generation from whose checkpoint the workers began.
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

// RememberShape starts with the shape of a directory in the checkpoint before.
func (m *Memory) RememberShape(key, shape string) {
	if m.shapes == nil {
		m.shapes = map[string]string{}
	}
	m.shapes[key] = shape
}

// Keys returns the keys of the units that each save writes, sorted. Each is repeated as often as a
// save writes it. The result is nil while that is not known.
func (m *Memory) Keys() (keys []string) {
	if m.unsure {
		return nil
	}
	for _, k := range m.keys() {
		keys = append(keys, slices.Repeat([]string{k}, m.passes[k])...)
	}
	return keys
}

// Counts reports whether the numbers of the family counted saves in the last save.
func (m *Memory) Counts(family string) bool { return m.passes[family] > 0 }

// keys returns the keys of the units that saves write, sorted.
func (m *Memory) keys() []string {
	var keys []string
	for k := range m.passes {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Uncount notes that the numbers of a family do not count saves. names are its files up to the last
// save: they are separate units of one save. Files that came later may belong to it too.
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

// Clone returns an independent copy.
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

// setApart records that a unit is written independently of saves.
func (m *Memory) setApart(key string) {
	if m.apart == nil {
		m.apart = map[string]bool{}
	}
	m.apart[key] = true
	delete(m.passes, key)
}

// Decide finds the newest complete save. It makes units Busy that may be opened once more.
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

// separate finds units that are written independently of the others.
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

// try decides about the save of a step number, or about a save without a number.
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
	var waits []Unit // new units that the next save may open once more
	for _, u := range wrote {
		if u.quiet > 0 && m.newcomer(u) {
			waits = append(waits, u)
		}
	}
	wrote, left := m.leaveOut(slices.DeleteFunc(wrote, func(u Unit) bool { return u.Status != Done }))
	left = append(left, waits...)
	if len(wrote) == 0 {
		return Decision{}
	}
	d := Decision{Take: append(slices.Clone(wrote), beside(l.Units, wrote)...), Wrote: wrote, Left: left,
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

// beside returns the unchanged units that belong to the save: the units of the last save, except
// those that the new save makes obsolete.
func beside(units, wrote []Unit) (take []Unit) {
	for _, u := range units {
		replaced := u.Counted &&
			slices.ContainsFunc(wrote, func(w Unit) bool { return w.Counted && w.Key == u.Key })
		if !u.Fresh && u.InLast && !replaced {
			take = append(take, u)
		}
	}
	return take
}

// lacks says why the units are not a complete save. It returns the zero Decision if they are.
func (m *Memory) lacks(l Look, wrote []Unit, number *int64) Decision {
	alone := !slices.ContainsFunc(wrote, m.belongs) // no save had any of the units
	for _, u := range wrote {
		required := u.Counted || m.belongs(u) || u.InLast || alone && !m.apart[u.Key]
		if u.Status != Done && required {
			return Decision{Path: u.Name(), Why: u.Why, Quiet: u.quiet}
		}
	}
	for _, u := range wrote {
		if u.Dir && u.Counted && !u.Proven && !m.shaped(u) && l.Workers != Exited &&
			!superseded(l.Units, u) {
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

// belongs reports whether an earlier save had the unit.
func (m *Memory) belongs(u Unit) bool {
	_, ok := m.passes[u.Key]
	return ok
}

// shaped reports whether the directory has the same files as in the last save.
func (m *Memory) shaped(u Unit) bool {
	shape, ok := m.shapes[u.Key]
	return ok && shape == u.Shape
}

// superseded reports whether a fresh unit has the key of u and a larger number.
func superseded(units []Unit, u Unit) bool {
	return slices.ContainsFunc(units, func(o Unit) bool {
		return o.Fresh && o.Counted && o.Key == u.Key && o.Number > u.Number
	})
}
