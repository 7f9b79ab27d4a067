package judge

import (
	"math"
	"slices"
	"time"
)

// lacksFirst is lacks while it is not known which files belong together.
func (m *Memory) lacksFirst(l Look, wrote []Unit) Decision {
	wrote = slices.DeleteFunc(slices.Clone(wrote), func(u Unit) bool { return m.apart[u.Key] })
	for _, u := range wrote {
		if was, ok := m.left[u.Key]; ok && u.Passes == was.passes {
			return Decision{Path: u.Path,
				Why: "no save had it before, and it is not known to which save it belongs"}
		}
	}
	if u := behind(wrote); u.Path != "" && !finished(wrote) {
		return Decision{Path: u.Path, Why: "it was not written as often as the other files of the first save"}
	}
	text, whole, next := true, false, false
	fewest, most := math.MaxInt, 0
	for _, u := range wrote {
		whole = whole || u.Counted && u.Proven && u.Dir
		next = next || u.Counted && m.superseded(l.Units, u)
		fewest, most, text = min(fewest, u.Passes), max(most, u.Passes), text && u.Text
	}
	enough := 2 // that they were all written, and all written again
	stays := m.stays(l.Units, wrote)
	if stays != "" {
		enough = apartAfter + 1
	}
	switch {
	case whole, next && (stays == "" || fewest >= enough):
		return Decision{}
	case len(m.passes) > 0 && !m.unsure:
		return m.lacksLast(l, wrote)
	case l.Workers == Exited:
		return Decision{}
	case l.through(wrote) && stays == "":
		return Decision{Guess: true}
	case len(m.passes) == 0 && fewest >= enough && (fewest == most || finished(wrote)) && !text:
		return Decision{}
	case l.Temporary != "":
		return Decision{Path: l.Temporary,
			Why: "a temporary name beside a save: it may become a part of it, and no earlier save " +
				"shows what belongs to one; remove the file if no worker writes it"}
	case stays != "" && fewest < enough:
		return Decision{Path: stays,
			Why: "the checkpoint that the workers began from has it, and it was not written again"}
	}
	for _, u := range wrote {
		if quiet := m.quiet(l, u.Since); l.Now.Sub(u.Since) < quiet {
			return Decision{Path: u.Path,
				Why: "it is the first save, and what else belongs to it is not known yet", Quiet: quiet}
		}
	}
	return Decision{Guess: true}
}

// through reports whether the workers that were killed or failed wrote one file or directory, and were
// through with it. An exception closes a file a moment before its worker ends: where one failed, only a
// rename or a mark shows that.
func (l Look) through(wrote []Unit) bool {
	return len(wrote) == 1 && (l.Workers == Killed || l.Workers == Failed && wrote[0].Proven)
}

// stays is a unit of the checkpoint that the workers began from which was not written again, while no
// save of theirs was seen: the next file that they write may be that one. "" is none. A counted one
// is not written again beside a file without a number.
func (m *Memory) stays(units, wrote []Unit) string {
	if len(m.passes) > 0 || !m.resumed {
		return "" // what else lies there was there before the job
	}
	counted := slices.ContainsFunc(wrote, func(w Unit) bool { return w.Counted })
	for _, u := range m.beside(units, wrote) {
		if !m.apart[u.Key] && (counted || !u.Counted) {
			return u.Path
		}
	}
	return ""
}

// FirstQuiet is how long the first save must not change before it is taken, at least: what belongs
// to it is not known yet.
const FirstQuiet = time.Second

const (
	// quietShare is the part of the time from the start of the workers to their first save for
	// which that must not change: a script that saves seldom may pause for longer within a save.
	quietShare = 10
	maxQuiet   = 30 * time.Second
)

// quiet is how long a save of which nothing was in a save before must not change, if its newest
// file is of that time. Workers that were killed write nothing more.
func (m *Memory) quiet(l Look, newest time.Time) time.Duration {
	if l.Workers != Running || len(m.passes) > 0 { // the rest of the first save
		return FirstQuiet
	}
	return min(max(FirstQuiet, newest.Sub(l.Began)/quietShare), maxQuiet)
}

// behind is a unit that was written less often than another one; the zero Unit if there is none.
// One that was written once, before the others, belongs to all that they were written for.
func behind(wrote []Unit) Unit {
	most, first := 0, uint64(0)
	for _, u := range wrote {
		if u.Passes > most {
			most, first = u.Passes, u.First
		} else if u.Passes == most {
			first = min(first, u.First)
		}
	}
	for _, u := range wrote {
		if u.Passes < most && (u.Passes > 1 || first > 0 && u.Last >= first) {
			return u
		}
	}
	return Unit{}
}
