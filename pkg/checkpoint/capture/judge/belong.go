package judge

import (
	"fmt"
	"slices"
)

// lacksFamily returns a unit that an earlier step wrote and this one did not. It applies only while
// the units of a save are not known.
func (m *Memory) lacksFamily(l Look, wrote []Unit, number int64) Decision {
	if len(m.passes) > 0 && !m.unsure {
		return Decision{}
	}
	for _, u := range l.Units {
		if !u.Fresh || !u.Counted || u.Number >= number || m.belongs(u) || m.apart[u.Key] {
			continue
		}
		if !slices.ContainsFunc(wrote, func(w Unit) bool { return w.Key == u.Key }) {
			return Decision{Path: u.Key,
				Why: fmt.Sprintf("it was written for step %d, and not for step %d", u.Number, number)}
		}
	}
	return Decision{}
}

// lacksTogether returns a unit that the last save wrote, if it is missing here, or is not known to
// be of the same save.
func (m *Memory) lacksTogether(wrote []Unit, number *int64) Decision {
	for _, key := range m.keys() {
		if !slices.ContainsFunc(wrote, func(u Unit) bool { return u.Key == key }) {
			of := "since the last one"
			if number != nil {
				of = fmt.Sprintf("for step %d", *number)
			}
			return Decision{Path: key, Why: "the last save wrote it too, and it was not written again " + of}
		}
	}
	required := m.required(wrote)
	if len(required) == 0 {
		return Decision{}
	}
	if u := m.torn(required); u.Path != "" {
		return Decision{Path: u.Path, Why: "it is not of the same save as the other files"}
	}
	for _, u := range wrote {
		switch {
		case !m.unsure || !m.newcomer(u) || m.placed(u, required):
		case u.Status != Done:
			return Decision{Path: u.Name(), Why: u.Why}
		default:
			return Decision{Path: u.Path,
				Why: "it was not in the first save, and is not of the same save as the others"}
		}
	}
	return Decision{}
}
