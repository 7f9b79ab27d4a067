// Package table decides which entry of a checkpoint directory is a save, by what was seen of each
// entry. docs/CHECKPOINTS.md has the table. Nothing is remembered from look to look.
package table

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Reason is the code of an event that says why a save was not taken.
type Reason string

const (
	SeveralFiles Reason = "several-files" // nothing says which files are one save
	BadNames     Reason = "bad-names"     // the files of --save-files are not those that are written
	Broken       Reason = "broken"        // a file is empty, or not whole by its format
	StaysOpen    Reason = "stays-open"    // a worker keeps a file open for writing, or mapped
	Overwritten  Reason = "overwritten"   // saves are written over while they are copied
)

// WorkerState says whether the worker processes of a generation run, and how they ended. The worst
// end of any worker counts.
type WorkerState int

const (
	Running WorkerState = iota
	Exited              // all exited with status 0, or as it was planned
	Failed              // one exited with an error, perhaps during a save
	Killed              // one was killed by a signal, perhaps during a save
)

// Row is a row of the table in docs/CHECKPOINTS.md: what makes an entry a save.
type Row int

const (
	None      Row = iota // nothing makes it one, or not yet
	Mark                 // .elastic-commit
	Rename               // the directory was renamed to its name
	Framework            // the framework says that it is complete
	Named                // the user named the files, and the last of them is complete
	Next                 // the next save began, or the workers ended as planned
)

// Seen is all that was seen of one entry of the checkpoint directory. Decide knows nothing else.
type Seen struct {
	Name   string
	Dir    bool
	Family string // the name, with # for the numbers that count saves
	Number int64  // the last of these numbers
	Counts bool   // there is one

	Fresh bool // it changed since the save that was taken last, or since the workers started
	Wrote bool // it changed since the workers started
	Old   bool // of a lower number than the save that was taken last, and not written anew

	Marked    bool // it has a new mark, and nothing of it was written later
	Renamed   bool // it was renamed to its name, and nothing in it was written since
	Framework Said
	Again     bool // a save of its family was seen complete before, or is all of the checkpoint
	// First, Last and Prior order the entries by when these workers completed them: for the first
	// time, for the last time, and for the time before that. 0: never.
	First, Last, Prior uint64

	Whole   bool   // each file is complete
	Rests   bool   // ... but no format tells that one is whole, and workers did not run for a second since
	At, Why string // else: which file is not, and why
	Stuck   Reason // ... and that the script must change for that; "": it may become complete
}

// Said is what a framework says about an entry.
type Said int

const (
	Nothing  Said = iota
	NotYet        // it writes a file when the save is complete, and has not written it
	Complete      // it has written that file, or each of its files is a whole save
)

// Look is what one look at the directory saw.
type Look struct {
	Workers WorkerState
	Entries []Seen   // by name
	Names   []string // of --save-files, the last one completes a save
	Marks   bool     // saves have marks: nothing else counts
}

// Decision is the result of a look: the entries of the newest save, or why there is none.
type Decision struct {
	Row    Row
	Take   []string // the save
	Older  []string // saves that are complete, and older than it
	Refuse *Refused
}

// Refused says why a save is not taken, and what to do.
type Refused struct {
	Reason Reason
	Path   string
	Why    string
}

// Decide returns the newest save of a look.
func Decide(l Look) Decision {
	if l.Marks {
		return l.newest(l.each(marked))
	}
	if l.Names != nil {
		return l.named()
	}
	if r := l.several(); r != nil {
		return Decision{Refuse: r}
	}
	d := l.newest(l.each(l.row))
	if d.Take == nil && d.Refuse == nil {
		d.Refuse = l.unfinished()
	}
	return d
}

// marked is the row of marks alone.
func marked(e Seen) Row {
	if e.Marked {
		return Mark
	}
	return None
}

// row returns the first row that holds for an entry.
func (l Look) row(e Seen) Row {
	switch {
	case e.Marked:
		return Mark
	case !l.ready(e) || e.Old || e.Framework == NotYet:
		return None
	case e.Dir && e.Renamed:
		return Rename
	case e.Framework == Complete && (e.Dir || !l.twice(e)):
		return Framework
	case !e.Dir && l.Beside():
		return None
	case l.Workers == Exited, l.begun(e), !e.Dir && (e.Again || l.preceded(e)):
		return Next
	}
	return None
}

// LastFile is the name of the file that Lightning writes with save_last: a copy of the newest save, after it.
// Scripts that look for it find no other.
const LastFile = "last.ckpt"

// twice reports whether a file is written once more, as LastFile.
func (l Look) twice(e Seen) bool {
	return slices.ContainsFunc(l.Entries, func(o Seen) bool {
		return o.Wrote && o.Name != e.Name && o.Name == path.Join(path.Dir(e.Name), LastFile)
	})
}

// begun reports whether a later save of the family began.
func (l Look) begun(e Seen) bool {
	return slices.ContainsFunc(l.Entries, func(o Seen) bool {
		return o.Fresh && o.Counts && o.Family == e.Family && o.Dir == e.Dir && o.Number > e.Number
	})
}

// preceded reports whether these workers wrote an earlier save of the family.
func (l Look) preceded(e Seen) bool {
	return slices.ContainsFunc(l.Entries, func(o Seen) bool {
		return o.Wrote && e.Counts && o.Family == e.Family && o.Dir == e.Dir && o.Number < e.Number
	})
}

// ready reports whether each file of an entry is complete. The begin of a later save shows that workers
// went on after this one.
func (l Look) ready(e Seen) bool { return e.Whole && (!e.Rests || l.begun(e)) }

// Beside reports whether saves are proven: then a loose file is no part of any.
func (l Look) Beside() bool {
	return slices.ContainsFunc(l.Entries, func(e Seen) bool {
		return e.Framework != Nothing || e.Wrote && (e.Marked || e.Dir && e.Renamed)
	})
}

// each returns the complete entries for which row holds.
func (l Look) each(row func(Seen) Row) map[Row][]Seen {
	of := map[Row][]Seen{}
	for _, e := range l.Entries {
		if !e.Fresh {
			continue
		}
		if r := row(e); r != None {
			of[r] = append(of[r], e)
		}
	}
	return of
}

// newest takes the newest of the entries, each of which is a save.
func (l Look) newest(of map[Row][]Seen) (d Decision) {
	var all []Seen
	row := map[string]Row{}
	for _, r := range slices.Sorted(maps.Keys(of)) {
		for _, e := range of[r] {
			all, row[e.Name] = append(all, e), r
		}
	}
	if all == nil {
		return Decision{}
	}
	last := slices.MaxFunc(all, func(a, b Seen) int {
		if a.Counts && b.Counts && a.Family == b.Family {
			return cmp.Compare(a.Number, b.Number)
		}
		return cmp.Or(cmp.Compare(a.Last, b.Last), cmp.Compare(b.Name, a.Name))
	})
	d.Row, d.Take = row[last.Name], []string{last.Name}
	for _, e := range all {
		if e.Name != last.Name {
			d.Older = append(d.Older, e.Name)
		}
	}
	return d
}

// several refuses saves of which nothing says which files belong to them.
func (l Look) several() *Refused {
	if l.Beside() {
		return nil
	}
	var loose []Seen
	families := map[string]bool{}
	for _, e := range l.Entries {
		if e.Wrote && !families[e.Family] {
			families[e.Family] = true
			loose = append(loose, e)
		}
	}
	if len(loose) < 2 || !slices.ContainsFunc(loose, func(e Seen) bool { return !e.Dir }) {
		return nil
	}
	slices.SortStableFunc(loose, func(a, b Seen) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last))
	})
	var names []string
	dir := ""
	for _, e := range loose {
		names = append(names, strings.ReplaceAll(e.Family, "#", "*"))
		if e.Dir {
			dir = e.Name
		}
	}
	r := &Refused{Reason: SeveralFiles, Path: loose[1].Name}
	list := strings.Join(names, ", ")
	if dir != "" {
		r.Why = fmt.Sprintf("nothing says whether %s belong to one save: write all of a save into one "+
			"directory, or call elastic.saved(%q)", list, dir)
		return r
	}
	n, all := "two", "both"
	if len(names) > 2 {
		n, all = fmt.Sprint(len(names)), "all"
	}
	r.Why = fmt.Sprintf("%s files are written for each save (%s): run with --save-files=%s, or write %s "+
		"into one directory", n, list, strings.Join(names, ","), all)
	return r
}

// unfinished refuses a save that does not become complete by itself.
func (l Look) unfinished() *Refused {
	for _, e := range l.Entries {
		if r := e.stuck(); r != nil && !e.Old {
			return r
		}
	}
	return nil
}

func (e Seen) stuck() *Refused {
	if !e.Fresh || e.Whole && !e.Rests || e.Stuck == "" {
		return nil
	}
	return &Refused{Reason: e.Stuck, Path: e.At, Why: fmt.Sprintf("%s: %s", e.At, e.Why)}
}

// Lacks says why an entry was no save when the workers ended.
func (l Look) Lacks(e Seen) string {
	switch {
	case !e.Whole || e.Rests:
		return cmp.Or(e.At, e.Name) + ": " + e.Why
	case l.Marks && !e.Marked:
		return e.Name + ": saves have marks, and it has none"
	case e.Framework == NotYet:
		return e.Name + ": its framework did not complete it"
	case l.Names != nil:
		return e.Name + ": the files of --save-files were not all written"
	case e.Dir:
		return e.Name + ": nothing shows that all files of the save were written"
	}
	return e.Name + ": it was written once, and nothing shows that it is all of a save"
}
