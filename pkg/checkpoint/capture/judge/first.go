package judge

import (
	"math"
	"slices"
	"time"
)

// lacksFirst is lacks for units of which no earlier save had one: which files belong together is
// not known.
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
		next = next || u.Counted && superseded(l.Units, u)
		fewest, most, text = min(fewest, u.Passes), max(most, u.Passes), text && u.Text
	}
	enough := 2 // passes: all units were written, and all were written again
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
	why := "it is the first save, and what else belongs to it is not known yet"
	if text {
		why = "it is the first save, and text alone, which may be a log or a status"
	}
	for _, u := range wrote {
		if quiet := m.quiet(l, u.Since); l.Now.Sub(u.Since) < quiet {
			return Decision{Path: u.Path, Why: why, Quiet: quiet}
		}
	}
	return Decision{Guess: true}
}

// through reports whether workers that failed or were killed had completed their only file or
// directory. An exception closes a file just before its worker ends. So after a failure only a
// rename or a mark proves that it is complete.
func (l Look) through(wrote []Unit) bool {
	return len(wrote) == 1 && (l.Workers == Killed || l.Workers == Failed && wrote[0].Proven)
}

// stays returns a unit of the checkpoint from which the workers began that they have not written
// again, "" if there is none. Until their first save is known, the next file that they write may be
// that unit. If the units that were written are not counted, a counted unit does not matter: such a
// save does not write it again.
func (m *Memory) stays(units, wrote []Unit) string {
	if len(m.passes) > 0 || !m.resumed {
		return "" // other files were there before the job
	}
	counted := slices.ContainsFunc(wrote, func(w Unit) bool { return w.Counted })
	for _, u := range beside(units, wrote) {
		if !m.apart[u.Key] && (counted || !u.Counted) {
			return u.Path
		}
	}
	return ""
}

// FirstQuiet is how long at least the first save must not change before it is taken. Its units are
// not known yet.
const FirstQuiet = time.Second

const (
	// quietShare sets how long the first save must not change: 1/quietShare of the time from the
	// start of the workers to that save. A script that saves seldom may pause longer within a save.
	quietShare = 10
	maxQuiet   = 30 * time.Second
)

// quiet returns how long a save must not change before it is taken, if no earlier save had any of
// its units. newest is the time of its newest file. After the workers' end FirstQuiet is enough.
func (m *Memory) quiet(l Look, newest time.Time) time.Duration {
	if l.Workers != Running || len(m.passes) > 0 { // passes: these units complete the first save
		return FirstQuiet
	}
	return min(max(FirstQuiet, newest.Sub(l.Began)/quietShare), maxQuiet)
}

// behind returns a unit that was written less often than another one, the zero Unit if there is
// none. A unit that was written once, before the others, is not behind: it belongs to all saves.
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
