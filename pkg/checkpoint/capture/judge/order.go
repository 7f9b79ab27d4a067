package judge

import (
	"cmp"
	"slices"
)

// noteOrder learns from a save that was taken in which order saves write their units.
func (m *Memory) noteOrder(wrote []Unit) {
	order := keysOf(m.required(wrote))
	if !slices.Equal(order, m.order) {
		m.order, m.orders = order, 0
	}
	if m.orders++; m.together {
		m.orders = 0
	}
}

// Together says that two files were written at the same time: saves have no order.
func (m *Memory) Together() { m.together, m.orders = true, 0 }

// keysOf are the keys of the units as they were written for the last time.
func keysOf(units []Unit) (keys []string) {
	units = slices.SortedFunc(slices.Values(units),
		func(a, b Unit) int { return cmp.Compare(a.Last, b.Last) })
	for _, u := range units {
		keys = append(keys, u.Key)
	}
	return keys
}

// follows reports whether saves write the units in one order, each once: some in a row did, and no two
// were ever written at the same time. What counts steps tells by its number which save it is of.
func (m *Memory) follows(required []Unit) bool {
	return m.orders >= again && m.once(required) && len(required) > 1 && len(required) == len(m.order) &&
		!slices.ContainsFunc(required, func(u Unit) bool { return u.Counted || u.Last == 0 })
}

// reversed reports whether the units are written in another order than that of the saves: the first one
// that comes late may be of the next save, and have failed in this one. Saves that go on so have another
// order.
func (m *Memory) reversed(required []Unit) bool {
	long := slices.ContainsFunc(required, func(u Unit) bool { return u.Passes > apartAfter })
	return m.follows(required) && !long && !slices.Equal(keysOf(required), m.order)
}

// cycled reports whether each unit was written once since the first one was written for the last time, in
// the order of the saves. So they are of one save, though others failed at any of them.
func (m *Memory) cycled(required []Unit) bool {
	if !m.follows(required) || !slices.Equal(keysOf(required), m.order) {
		return false
	}
	first := slices.MinFunc(required, func(a, b Unit) int { return cmp.Compare(a.Last, b.Last) }).Last
	return !slices.ContainsFunc(required,
		func(u Unit) bool { return u.Prior > first || u.Passes > 1 && u.Prior == 0 })
}
