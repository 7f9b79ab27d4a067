package judge

import (
	"cmp"
	"slices"
)

// noteOrder learns the order in which saves write their units, from a save that was taken.
func (m *Memory) noteOrder(wrote []Unit) {
	order := keysOf(m.required(wrote))
	if !slices.Equal(order, m.order) {
		m.order, m.orders = order, 0
	}
	if m.orders++; m.together {
		m.orders = 0
	}
}

// Together notes that two files were written at the same time, so saves have no order.
func (m *Memory) Together() { m.together, m.orders = true, 0 }

// keysOf returns the keys of the units in the order of their last writes.
func keysOf(units []Unit) (keys []string) {
	units = slices.SortedFunc(slices.Values(units),
		func(a, b Unit) int { return cmp.Compare(a.Last, b.Last) })
	for _, u := range units {
		keys = append(keys, u.Key)
	}
	return keys
}

// follows reports whether saves write each of the units once, and always in the same order: the
// last few saves did, and no two units were ever written at the same time. It is false if a unit is
// counted, because then its number shows the save.
func (m *Memory) follows(required []Unit) bool {
	return m.orders >= again && m.once(required) && len(required) > 1 && len(required) == len(m.order) &&
		!slices.ContainsFunc(required, func(u Unit) bool { return u.Counted || u.Last == 0 })
}

// reversed reports whether the last writes of the units are in another order than saves have. The
// unit that was written too late may be of the next save, and may have failed in this one. It is
// false after more than apartAfter passes, because then saves have a new order.
func (m *Memory) reversed(required []Unit) bool {
	long := slices.ContainsFunc(required, func(u Unit) bool { return u.Passes > apartAfter })
	return m.follows(required) && !long && !slices.Equal(keysOf(required), m.order)
}

// cycled reports whether each unit was written exactly once since the last write of the first unit,
// in the order of the saves. Then they are of one save, even if earlier saves failed at any unit.
func (m *Memory) cycled(required []Unit) bool {
	if !m.follows(required) || !slices.Equal(keysOf(required), m.order) {
		return false
	}
	first := slices.MinFunc(required, func(a, b Unit) int { return cmp.Compare(a.Last, b.Last) }).Last
	return !slices.ContainsFunc(required,
		func(u Unit) bool { return u.Prior > first || u.Passes > 1 && u.Prior == 0 })
}
