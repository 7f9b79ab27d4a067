package judge

import (
	"cmp"
	"slices"
)

// again is how many saves must have been written, in one order, before how often they write each unit
// is learned anew.
const again = 3

// rounds is how many saves were written since the last one that was taken.
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

// exactly is how many saves wrote the units if each wrote them as often as ever, and otherwise 0.
func (m *Memory) exactly(required []Unit) int {
	n := required[0].Passes / m.passes[required[0].Key]
	if slices.ContainsFunc(required, func(u Unit) bool { return u.Passes != n*m.passes[u.Key] }) {
		return 0
	}
	return n
}

// once reports whether no save is known to write one of the units more than once.
func (m *Memory) once(units []Unit) bool {
	return !slices.ContainsFunc(units, func(u Unit) bool { return m.passes[u.Key] > 1 })
}

// divisor is the greatest number of saves that could have written each unit as often as it was.
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

// required are those that each save writes, if it is known how often: all that have the same name
// in each save, and of those that count the one that was written for most numbers.
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

// torn is a unit that is not known to be of the same save as the others; the zero Unit if there is
// none. Each was written as often as ever, in the same number of saves. Or the last save is finished
// though others were not. Where saves have an order, that decides: a file that failed alone is behind the
// others from then on.
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

// finished reports whether the last save wrote all units, if each save writes each once: all were
// written equally often, or some saves failed and wrote the first of them alone. Then the first ones
// have more passes than those after them, and the last passes are in the order of the first ones. A
// unit that is still to come was written before the others for the last time.
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

// inOrder are the units as they were written for the first time.
func inOrder(units []Unit) []Unit {
	return slices.SortedFunc(slices.Values(units),
		func(a, b Unit) int { return cmp.Compare(a.First, b.First) })
}
