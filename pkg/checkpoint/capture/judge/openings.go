package judge

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// openings learns how often a save closes the file of a key, from the pauses between the closes. A
// save may open a file more than once: it writes the body first, and then the header. If the format
// cannot be checked, the file looks complete in between.
type openings struct {
	usual int // how often a save closes it; 0: no save was seen
	// unusual counts saves in a row that closed it unlike usual: more than once if usual is 1, else
	// only once.
	unusual int
	inner   time.Duration // the longest pause within a save
	waits   time.Time     // since when a save waits for another close
	newest  closings
}

// closings are how the newest save closed the file.
type closings struct {
	path        string
	number      int64
	seen        int // Unit.Opens
	times       int // how often it was closed
	first, last time.Time
	pause       time.Duration // the longest pause
	before      time.Duration // since the save before, or since the start of the workers
	most        time.Duration // the limit of quiet
}

// noteOpenings learns from a look.
func (m *Memory) noteOpenings(l Look) {
	for _, u := range l.Units {
		o := m.openings[u.Key]
		if !u.Fresh || u.Log || u.Counted && o.newest.path != "" && u.Number < o.newest.number {
			continue
		}
		if o.newest.path != u.Path {
			o.end()
			o.newest.path, o.newest.number, o.newest.seen, o.newest.times = u.Path, u.Number, 0, 0
		}
		if o.newest.first.IsZero() {
			o.newest.last = l.Began
		}
		n, last, apart := u.Opens-o.newest.seen, u.closed(l), time.Duration(0)
		if n > 1 && o.usual == 1 {
			apart = last.Sub(l.Before) / time.Duration(n) // looks may be slower than saves
		}
		for i := range max(0, n) {
			o.close(u, last.Add(-apart*time.Duration(n-1-i)))
		}
		if n > 0 {
			o.waits = time.Time{} // another save, or a later part of this one
		}
		o.newest.seen = u.Opens
		m.setOpenings(u.Key, o)
	}
}

func (m *Memory) setOpenings(key string, o openings) {
	if m.openings == nil {
		m.openings = map[string]openings{}
	}
	m.openings[key] = o
}

// closed estimates when a unit was closed that this look finds closed again: after its last write,
// and after the look before.
func (u Unit) closed(l Look) time.Time {
	switch {
	case u.Written.IsZero() || u.Written.After(l.Now): // by another machine's clock
		return l.Now
	case u.Written.Before(l.Before):
		return l.Before
	}
	return u.Written
}

// close notes that the unit was closed, and decides whether the same save did it. A counted unit is
// always written by one save.
func (o *openings) close(u Unit, at time.Time) {
	gap, most := at.Sub(o.newest.last), o.newest.most
	if o.usual == 1 {
		most = o.newest.before / quietShare
	}
	same := gap < o.quiet() && at.Sub(o.newest.first) <= most || u.Counted && o.newest.seen > 0
	if o.newest.seen++; o.newest.times > 0 && same {
		o.newest.times++
		o.newest.pause = max(o.newest.pause, gap)
		if o.usual != 1 || o.unusual > 0 {
			o.usual, o.unusual = max(o.usual, o.newest.times), 0
		}
	} else {
		o.end()
		o.newest.before = max(gap, o.newest.pause)
		o.newest.most = min(o.newest.before/2, maxQuiet)
		if o.newest.first.IsZero() {
			share := time.Duration(quietShare)
			if o.usual > 1 {
				share = 2
			}
			o.newest.most = min(max(FirstQuiet, o.newest.before/share), maxQuiet)
		}
		o.newest.first, o.newest.times, o.newest.pause = at, 1, 0
	}
	o.newest.last = at
}

// end learns from the newest save. Call it when the next one begins.
func (o *openings) end() {
	switch {
	case o.newest.times == 0:
	case o.usual == 0:
		o.usual = 1
	case o.usual == 1:
		o.unusual = min(o.newest.times-1, 1)
	case o.newest.times > 1:
		o.usual, o.inner, o.unusual = o.newest.times, o.newest.pause, 0
	default:
		if o.unusual++; o.unusual == again {
			o.usual, o.inner, o.unusual = 1, 0, 0
		}
	}
}

// quiet returns how long the unit must not change until the newest save has finished it.
func (o *openings) quiet() time.Duration {
	switch {
	case o.usual == 1:
		return min(o.newest.before/quietShare, maxQuiet)
	case o.newest.times < o.usual:
		return o.newest.most
	}
	return min(max(FirstQuiet, o.newest.before/quietShare, 2*max(o.inner, o.newest.pause)), o.newest.most)
}

// settle makes the units Busy that the newest save may open once more.
func (m *Memory) settle(l Look) {
	if l.Workers == Exited {
		return
	}
	for i := range l.Units {
		u := &l.Units[i]
		o := m.openings[u.Key]
		known := o.newest.path == u.Path && o.newest.times > 0
		if !known || !u.Fresh || !u.Opaque || u.Proven || u.Status != Done || m.apart[u.Key] {
			continue
		}
		if o.usual > 1 || o.usual == 0 && l.Workers != Running { // lacksFirst waits while they run
			o.settle(u, l)
			m.openings[u.Key] = o
		}
	}
}

// settle makes the unit Busy if the newest save may open it once more.
func (o *openings) settle(u *Unit, l Look) {
	running := l.Workers == Running
	quiet := o.quiet()
	if o.usual == 0 {
		quiet = FirstQuiet
	}
	if l.Now.Sub(o.newest.last) >= quiet && (running || o.newest.times >= o.usual) {
		o.waits = time.Time{}
		return
	}
	if o.waits.IsZero() {
		o.waits = l.Now
	}
	if running && l.Now.Sub(o.waits) >= maxQuiet {
		return
	}
	u.Status, u.At, u.quiet = Busy, u.Path, quiet
	u.Why = fmt.Sprintf("a save opens and closes it more than once, and is taken when "+
		"it stays as it is for %s; write it under a temporary name and rename it",
		quiet.Round(100*time.Millisecond))
	if !running {
		u.Why = "its workers ended so soon after it was closed that they may have had to open it once more; " +
			"write it under a temporary name and rename it"
	}
}

// takenOpenings notes that a save was taken.
func (m *Memory) takenOpenings(d Decision) {
	for _, u := range d.Take {
		o, ok := m.openings[u.Key]
		if !ok || o.newest.path != u.Path {
			continue
		}
		if o.usual == 0 {
			o.usual = max(1, o.newest.times)
		}
		o.newest.seen, o.waits = 0, time.Time{}
		m.openings[u.Key] = o
	}
}

// Reopened returns the keys that a save opens more than once.
func (m *Memory) Reopened() (keys []string) {
	for _, k := range slices.Sorted(maps.Keys(m.openings)) {
		if m.openings[k].usual > 1 {
			keys = append(keys, k)
		}
	}
	return keys
}

// RememberReopened starts with the Reopened of an earlier generation. Call it after Remember.
func (m *Memory) RememberReopened(keys []string) {
	for _, k := range keys {
		m.setOpenings(k, openings{usual: 2})
	}
}
