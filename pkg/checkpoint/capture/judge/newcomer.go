package judge

import (
	"maps"
	"slices"
)

// owe computes debt: how many passes of each newcomer (a unit that no save had) belong to saves
// before the current one. Those are the passes before any other unit of the current save.
func (m *Memory) owe(units []Unit) {
	if len(m.passes) == 0 {
		return
	}
	most, newest, under := 0, uint64(0), false
	for _, u := range units {
		if !u.Fresh || m.passes[u.Key] == 0 {
			continue
		}
		if under = true; !u.begun() {
			most, newest = max(most, u.Passes/m.passes[u.Key]), max(newest, u.Last)
		}
	}
	before := m.debt
	m.debt = map[string]int{}
	maps.Copy(m.debt, before)
	for _, u := range units {
		_, seen := before[u.Key]
		if !u.Fresh || !m.newcomer(u) || u.Status != Done || seen && under {
			continue
		}
		n := 0
		switch {
		case most == 0:
			n = u.Passes
		case u.Passes > most || u.Passes == most && u.Last < newest:
			n = 1
		}
		m.debt[u.Key] = max(m.debt[u.Key], n)
	}
}

// newcomer reports whether no save had the unit, but a save may have it.
func (m *Memory) newcomer(u Unit) bool {
	return len(m.passes) > 0 && !u.Log && !m.belongs(u) && !m.apart[u.Key]
}

// placed reports whether a newcomer was written in the same save as the others. It was if it was
// written as often as they were. It also was if it was written less often, and after all of them:
// some saves failed before they wrote it. Counted units are of one save if their numbers are equal.
func (m *Memory) placed(u Unit, required []Unit) bool {
	rounds, newest := 0, uint64(0)
	for _, r := range required {
		if r.Counted && u.Counted && u.Status == Done {
			return r.Number == u.Number
		}
		rounds, newest = max(rounds, r.Passes/m.passes[r.Key]), max(newest, r.Last)
	}
	n := u.Passes - m.debt[u.Key]
	return u.Status == Done && (n == rounds || n > 0 && n < rounds && u.Last > newest)
}

// replace forgets the known units when saves write other files now: only newcomers were written,
// more than apartAfter times.
func (m *Memory) replace(units []Unit) {
	most := 0
	for _, u := range units {
		switch {
		case !u.Fresh || u.Log || m.apart[u.Key]:
		case m.newcomer(u):
			most = max(most, u.Passes-m.left[u.Key].passes)
		default:
			return
		}
	}
	if most > apartAfter {
		for _, key := range m.keys() {
			m.setApart(key)
		}
	}
}

// lacksLast says why newcomers that were written alone are not known to belong to the last save:
// they may be the beginning of the next one. They belong to the last save if the workers exited
// right after it, or if they have not changed for longer than the time between that save and them.
func (m *Memory) lacksLast(l Look, wrote []Unit) Decision {
	for _, u := range wrote {
		after := u.Since.Sub(m.at)
		d := Decision{Path: u.Path, Why: "no save had it before, and the next save may have begun with it"}
		other := func(last Unit) bool { return last.InLast && last.Counted && u.Counted && last.Number != u.Number }
		switch {
		case slices.ContainsFunc(l.Units, other):
			d.Why = "no save had it before, and the last save counts another step"
			return d
		case m.at.IsZero():
			return d // these workers have not saved yet
		case l.Workers == Exited && after <= FirstQuiet:
		case l.Now.Sub(u.Since) < max(FirstQuiet, after):
			return d
		}
	}
	return Decision{Guess: l.Workers != Exited}
}

// leaveOut splits off the newcomers whose save is not known.
func (m *Memory) leaveOut(wrote []Unit) (rest, left []Unit) {
	required := m.required(wrote)
	for _, u := range wrote {
		if m.newcomer(u) && len(required) > 0 && !m.unsure && !m.placed(u, required) {
			left = append(left, u)
		} else {
			rest = append(rest, u)
		}
	}
	return rest, left
}

// absence describes a unit that is not written while others are.
type absence struct {
	passes int // of the unit, when it was written last
	rounds int // left: saves taken since then; stood: how often others had been written by then
}

// noteLeft learns from a save that left units out. rounds is how many saves were written since the
// last one that was taken.
func (m *Memory) noteLeft(d Decision, rounds int) {
	for _, u := range d.Wrote {
		delete(m.left, u.Key)
	}
	for _, u := range d.Left {
		if m.left == nil {
			m.left = map[string]absence{}
		}
		was := m.left[u.Key]
		if was.passes != u.Passes {
			was = absence{passes: u.Passes}
		}
		was.rounds += rounds
		m.left[u.Key] = was
	}
}

// stoodAt returns how often others had been written when the unit was written last. most is how
// often they have been written now.
func (m *Memory) stoodAt(u Unit, most int) int {
	if was, ok := m.stood[u.Key]; ok && was.passes == u.Passes {
		return was.rounds
	}
	if m.stood == nil {
		m.stood = map[string]absence{}
	}
	m.stood[u.Key] = absence{u.Passes, most}
	return most
}
