package judge

import (
	"cmp"
	"slices"
)

// again is how many saves in a row must differ from the known pattern, or agree on a new one,
// before the pattern is replaced.
const again = 3

// rounds returns how many saves were written since the last one that was taken.
func (m *Memory) rounds(wrote []Unit) int {
	known := m.required(wrote)
	if len(known) == 0 {
		known = slices.DeleteFunc(slices.Clone(wrote), func(u Unit) bool { return m.apart[u.Key] })
	} else if n := m.exactly(known); n > 0 {
		return n
	}
	if m.once(known) && finished(known) || m.cycled(known) {
		return slices.MaxFunc(known, func(a, b Unit) int { return cmp.Compare(a.Passes, b.Passes) }).Passes
	}
	return m.divisor(known)
}

// exactly returns how many saves wrote the units if each wrote them as often as earlier saves did.
// It returns 0 if the counts do not fit.
func (m *Memory) exactly(required []Unit) int {
	n := required[0].Passes / m.passes[required[0].Key]
	if slices.ContainsFunc(required, func(u Unit) bool { return u.Passes != n*m.passes[u.Key] }) {
		return 0
	}
	return n
}

// once reports whether saves write none of the units more than once, as far as is known.
func (m *Memory) once(units []Unit) bool {
	return !slices.ContainsFunc(units, func(u Unit) bool { return m.passes[u.Key] > 1 })
}

// divisor returns the largest number of equal saves that explains the passes of all units.
func (m *Memory) divisor(wrote []Unit) (n int) {
	for _, u := range wrote {
		if m.apart[u.Key] {
			continue
		}
		a, b := u.Passes, n
		for b > 0 {
			a, b = b, a%b
		}
		n = a
	}
	return max(1, n)
}

// required returns the units that each save writes, if it is known how often. Of the counted units
// it has only the one with the most numbers.
func (m *Memory) required(wrote []Unit) (required []Unit) {
	var counted []Unit
	for _, u := range wrote {
		switch {
		case m.passes[u.Key] == 0:
		case !u.Counted:
			required = append(required, u)
		case counted == nil:
			counted = []Unit{u}
		case u.Passes > counted[0].Passes:
			counted[0] = u
		}
	}
	return append(required, counted...)
}

// torn returns a unit that is not known to be of the same save as the others, the zero Unit if
// there is none. The units are of one save if each was written as often as in earlier saves, by the
// same number of saves, or if the last save is finished although others were not. If saves have an
// order, the order decides first: counts do not help after one file failed alone.
func (m *Memory) torn(required []Unit) Unit {
	switch {
	case m.cycled(required):
		return Unit{}
	case m.reversed(required):
		return slices.MaxFunc(required, func(a, b Unit) int { return cmp.Compare(a.Last, b.Last) })
	case len(required) == 1, m.exactly(required) > 0, m.once(required) && finished(required),
		m.divisor(required) >= again && ordered(required):
		return Unit{}
	}
	rounds := required[0].Passes / m.passes[required[0].Key]
	i := slices.IndexFunc(required, func(u Unit) bool { return u.Passes != rounds*m.passes[u.Key] })
	return required[max(0, i)]
}

// finished reports whether the last save wrote all units, if each save writes each unit once. Saves
// that failed wrote only the first units, so earlier units may have more passes than later ones.
// The last passes must be in the same order as the first passes. If a unit is still to come, its
// last pass is before those of the others.
func finished(units []Unit) bool {
	units = inOrder(units)
	for i := 1; i < len(units); i++ {
		if units[i].Passes > units[i-1].Passes {
			return false
		}
	}
	return ordered(units)
}

// ordered reports whether the units were written for the last time in the order in which they were
// written for the first time.
func ordered(units []Unit) bool {
	units = inOrder(units)
	for i := 1; i < len(units); i++ {
		if units[i].Last <= units[i-1].Last {
			return false
		}
	}
	return len(units) > 0 && units[0].First > 0
}

// inOrder returns the units in the order of their first writes.
func inOrder(units []Unit) []Unit {
	return slices.SortedFunc(slices.Values(units),
		func(a, b Unit) int { return cmp.Compare(a.First, b.First) })
}
