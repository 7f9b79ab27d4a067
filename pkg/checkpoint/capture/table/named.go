package table

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// named decides about the files that the user named. Each save completes all of them, the last name
// last.
func (l Look) named() Decision {
	d := l.newest(l.each(marked))
	if d.Take != nil {
		return d
	}
	var at uint64
	var why *Refused
	for _, text := range l.texts() {
		set, missing := l.set(text)
		last := set[len(set)-1]
		r := l.misnamed(set, missing)
		switch {
		case r != nil:
			why = r
		case missing != "" || !l.complete(set):
			why = cmp.Or(why, broken(set))
		case d.Take == nil || last.Last > at:
			d = Decision{Row: Named, Take: names(set), Older: append(d.Older, d.Take...)}
			at = last.Last
		default:
			d.Older = append(d.Older, names(set)...)
		}
	}
	if d.Take == nil {
		d.Refuse = cmp.Or(why, l.unwritten())
	}
	return d
}

// misnamed refuses a save whose files are not those that the user named, or in another order.
func (l Look) misnamed(set []*Seen, missing string) *Refused {
	last := set[len(set)-1]
	if last == nil {
		if at := slices.IndexFunc(set, func(e *Seen) bool { return e != nil && e.Again }); at >= 0 {
			return neverWritten(missing, set[at].Name)
		}
		return nil
	}
	if !last.Fresh || !last.Whole || last.Rests || last.First == 0 {
		return nil
	}
	for _, e := range set {
		switch {
		case e == nil || e.First == 0:
			return neverWritten(cmp.Or(missing, last.Name), last.Name)
		case e.First > last.First:
			return &Refused{Reason: BadNames, Path: last.Name, Why: fmt.Sprintf("%s is written before %s: "+
				"the name of the file that is written last must be the last one of --save-files",
				last.Name, e.Name)}
		}
	}
	return nil
}

func neverWritten(name, is string) *Refused {
	return &Refused{Reason: BadNames, Path: name, Why: fmt.Sprintf("%s of --save-files is not written, "+
		"although %s is: give the names of all files of a save, in the order in which they are written",
		name, is)}
}

// unwritten refuses saves of other files than the user named.
func (l Look) unwritten() *Refused {
	if l.texts() != nil {
		return nil
	}
	for _, e := range l.Entries {
		if e.Wrote && !e.Dir && e.Again {
			return neverWritten(l.Names[0], e.Name)
		}
	}
	return nil
}

// complete reports whether the files are those of one save: each was written since the last name was
// completed for the time before, and the last name was completed last.
func (l Look) complete(set []*Seen) bool {
	last := set[len(set)-1]
	return !slices.ContainsFunc(set, func(e *Seen) bool {
		return !e.Fresh || !l.ready(*e) || e != last && (e.Last > last.Last || e.Last <= last.Prior)
	})
}

func broken(set []*Seen) *Refused {
	for _, e := range set {
		if e != nil && e.stuck() != nil {
			return e.stuck()
		}
	}
	return nil
}

func names(set []*Seen) (all []string) {
	for _, e := range set {
		all = append(all, e.Name)
	}
	return all
}

// set returns the entry of each name, with the text in place of *, and a name that has none.
func (l Look) set(text string) (set []*Seen, missing string) {
	for _, name := range l.Names {
		name = strings.Replace(name, "*", text, 1)
		at := slices.IndexFunc(l.Entries, func(e Seen) bool { return e.Name == name })
		if at < 0 {
			set, missing = append(set, nil), name
			continue
		}
		set = append(set, &l.Entries[at])
	}
	return set, missing
}

// texts returns what stands for * in the names of entries that changed, sorted.
func (l Look) texts() []string {
	found := map[string]bool{}
	for _, e := range l.Entries {
		for _, name := range l.Names {
			if text, ok := match(name, e.Name); ok && e.Fresh {
				found[text] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// match returns the text for which * stands if the name matches the pattern.
func match(pattern, name string) (text string, ok bool) {
	before, after, star := strings.Cut(pattern, "*")
	if !star {
		return "", pattern == name
	}
	if len(name) < len(before)+len(after) || !strings.HasPrefix(name, before) ||
		!strings.HasSuffix(name, after) {
		return "", false
	}
	text = name[len(before) : len(name)-len(after)]
	return text, !strings.Contains(text, "/")
}
