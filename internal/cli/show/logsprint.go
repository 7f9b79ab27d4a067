package show

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/logs"
	"github.com/elasticd/elastic/internal/phrase"
)

// since reads --since: how long ago, a time, or a generation.
func (r *reading) since() error {
	s := r.Setting("since")
	if !s.Given {
		return nil
	}
	if g, err := strconv.ParseUint(s.Text, 10, 64); err == nil && g > 0 {
		r.query.From = g
		return nil
	}
	now := r.Out.Now()
	after, ok := parseSince(s.Text, now)
	switch {
	case !ok:
		return s.Refuse("neither a time nor a generation").
			Cure("--since=10m, 14:30, 2026-11-27T14:30:00Z, or 5 for generation 5 and later ones")
	case after.After(now):
		return s.Refuse("this is in the future").Cure("elastic logs -f shows what comes")
	}
	r.query.After = after
	return nil
}

// parseSince reads how long ago, or a time. One without a date is the last that has passed, and one
// without a zone is local.
func parseSince(text string, now time.Time) (time.Time, bool) {
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 {
		return now.Add(-ago), true
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, true
	}
	for _, form := range []string{time.DateTime, "2006-01-02 15:04", "2006-01-02T15:04:05",
		"2006-01-02T15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(form, text, now.Location()); err == nil {
			return t, true
		}
	}
	for _, form := range []string{time.TimeOnly, "15:04"} {
		t, err := time.Parse(form, text)
		if err != nil {
			continue
		}
		y, m, d := now.Date()
		at := time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), 0, now.Location())
		if at.After(now) {
			at = at.AddDate(0, 0, -1)
		}
		return at, true
	}
	return time.Time{}, false
}

// sayTimeless says once of which nodes no times are known, if times matter.
func (r *reading) sayTimeless(lines []logs.Line) {
	if !r.stamps && r.query.After.IsZero() {
		return
	}
	var names []string
	for _, l := range lines {
		if l.Time.IsZero() && !r.timeless[l.Node] {
			r.timeless[l.Node] = true
			names = append(names, l.Node)
		}
	}
	if slices.Sort(names); len(names) > 0 {
		r.Out.Say("no times are known for lines of %s: all of these are shown", phrase.List(names))
	}
}

// print prints the lines of several ranks as one stream, by generation.
func (r *reading) print(lines []logs.Line) error {
	r.sayTimeless(lines)
	if r.Out.Json {
		for _, l := range lines {
			if err := r.Out.Object(l); err != nil {
				return err
			}
		}
		return nil
	}
	of := map[uint64]map[int][]logs.Said{}
	others := map[uint64][]logs.Line{} // of processes that are not trainers
	var generations []uint64
	for _, l := range lines {
		if of[l.Generation] == nil {
			of[l.Generation] = map[int][]logs.Said{}
			generations = append(generations, l.Generation)
		}
		if l.Process != "" {
			others[l.Generation] = append(others[l.Generation], l)
			continue
		}
		of[l.Generation][l.Rank] = append(of[l.Generation][l.Rank],
			logs.Said{Text: l.Text, Time: l.Time})
	}
	slices.Sort(generations)
	for _, g := range generations {
		for _, f := range r.folded(of[g]) {
			if err := r.printLine(f); err != nil {
				return err
			}
		}
		slices.SortStableFunc(others[g],
			func(a, b logs.Line) int { return strings.Compare(a.Process, b.Process) })
		for _, l := range others[g] {
			if err := r.Out.Line("%s[%s]: %s", r.stamp(l.Time), l.Process, l.Text); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reading) folded(of map[int][]logs.Said) []logs.Folded {
	if !r.Truth("no-fold") {
		return logs.Fold(of)
	}
	var all []logs.Folded
	for rank, lines := range of {
		for _, l := range lines {
			all = append(all, logs.Folded{Ranks: []int{rank}, Text: l.Text, Time: l.Time})
		}
	}
	slices.SortStableFunc(all, func(a, b logs.Folded) int {
		if r.stamps && !a.Time.Equal(b.Time) {
			return a.Time.Compare(b.Time)
		}
		return a.Ranks[0] - b.Ranks[0]
	})
	return all
}

func (r *reading) printLine(f logs.Folded) error {
	switch at := r.stamp(f.Time); {
	case r.single:
		return r.Out.Line("%s%s", at, f.Text)
	case len(f.Ranks) == 1:
		return r.Out.Line("%s[rank%d]: %s", at, f.Ranks[0], f.Text)
	default:
		return r.Out.Line("%s[ranks %s]: %s", at, logs.Spans(f.Ranks), f.Text)
	}
}

// stamp is what stands before a line that was written at t.
func (r *reading) stamp(t time.Time) string {
	switch {
	case !r.stamps:
		return ""
	case t.IsZero():
		return "-                    "
	}
	return t.Local().Format(time.DateTime) + "  "
}
