package table

import (
	"slices"
	"testing"
)

// Named files are one save if each was completed after the save before and before the last name.
func TestNamed(t *testing.T) {
	file := func(name string, first, last, prior uint64) Seen {
		return Seen{Name: name, Family: name, Fresh: true, Wrote: true, Whole: true, First: first, Last: last,
			Prior: prior}
	}
	for what, c := range map[string]struct {
		entries []Seen
		take    []string
		reason  Reason
	}{
		"one save":                      {[]Seen{file("a", 1, 1, 0), file("b", 2, 2, 0)}, []string{"a", "b"}, ""},
		"the next one began":            {[]Seen{file("a", 1, 3, 1), file("b", 2, 2, 0)}, nil, ""},
		"a of the next one failed":      {[]Seen{file("a", 1, 1, 0), file("b", 2, 3, 2)}, nil, ""},
		"two saves":                     {[]Seen{file("a", 1, 3, 1), file("b", 2, 4, 2)}, []string{"a", "b"}, ""},
		"b is written before a":         {[]Seen{file("a", 2, 2, 0), file("b", 1, 3, 1)}, nil, BadNames},
		"a is not there":                {[]Seen{file("b", 1, 1, 0)}, nil, BadNames},
		"a was not written":             {[]Seen{{Name: "a", Family: "a", Whole: true}, file("b", 1, 1, 0)}, nil, BadNames},
		"another file is no part of it": {[]Seen{file("a", 1, 1, 0), file("b", 2, 2, 0), file("c", 3, 3, 0)}, []string{"a", "b"}, ""},
	} {
		d := Decide(Look{Entries: c.entries, Names: []string{"a", "b"}})
		var reason Reason
		if d.Refuse != nil {
			reason = d.Refuse.Reason
		}
		if !slices.Equal(d.Take, c.take) || reason != c.reason {
			t.Errorf("%s: %+v, %s", what, d, reason)
		}
	}
}
