package capture

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/capture/files"
	"github.com/elasticd/elastic/pkg/checkpoint/capture/format"
	"github.com/elasticd/elastic/pkg/checkpoint/capture/table"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// evidence is what is known about each file: whether a worker has it open for writing, whether it
// was closed, and whether it is whole by its format.
type evidence struct {
	tree    dirfs.Reader
	changes files.Changes
	closed  map[string]dirfs.FileState // the state of each file that was closed while workers ran
	rested  map[string]dirfs.FileState // that stayed closed for a second while workers ran
	writers map[dirfs.FileID]string    // files that are open for writing, with the reason to wait for them
	blind   string                     // why open files cannot be seen; "" if they can
	mapped  map[string]bool            // files that were mapped for writing at the last look
	// unsure has entries that were written since the last save, although sizes and times are equal.
	unsure    map[string]bool
	unnoticed map[string]dirfs.FileState // files that the last scan found closed, without a notice of the close
	sound     map[dirfs.Found]format.Completeness

	// forWriting finds open files. Tests replace it.
	forWriting func(roots []int, want map[dirfs.FileID]bool) (open map[dirfs.FileID]string, blind string)
}

func newEvidence(t dirfs.Reader) *evidence {
	return &evidence{tree: t, changes: files.NewChanges(), forWriting: files.ForWriting,
		closed: map[string]dirfs.FileState{}, rested: map[string]dirfs.FileState{},
		mapped: map[string]bool{}, unsure: map[string]bool{},
		unnoticed: map[string]dirfs.FileState{}, sound: map[dirfs.Found]format.Completeness{}}
}

// scan finds the workers that have files of the fresh entries open for writing.
func (v *evidence) scan(fresh []*entry, w Workers, state WorkerState) {
	v.writers, v.blind = nil, ""
	if state != Running {
		return
	}
	if w.PIDs != nil {
		want := map[dirfs.FileID]bool{}
		for _, e := range fresh {
			for _, f := range e.files {
				want[f.State.ID()] = true
			}
		}
		v.writers, v.blind = v.forWriting(w.PIDs(), want)
	}
	if v.writers == nil {
		v.writers = map[dirfs.FileID]string{}
	}
	for _, e := range fresh {
		for _, f := range e.files {
			v.noteMapped(e, f)
			if _, open := v.writers[f.State.ID()]; !open && v.blind == "" && !v.lacksNotice(f) {
				v.closed[f.Path] = f.State
			}
		}
	}
}

// lacksNotice reports whether the scan found a file closed that was written, and of which no close was
// noticed. The notice may be on its way. So the file counts as closed at the next look, if it is the same
// then: some writes never give the notice of a close.
func (v *evidence) lacksNotice(f dirfs.Found) bool {
	if !v.changes.Written[f.Path] || v.closed[f.Path].SameBytes(f.State) ||
		v.unnoticed[f.Path].SameBytes(f.State) {
		return false
	}
	v.unnoticed[f.Path] = f.State
	v.writers[f.State.ID()] = "its close gave no notice yet"
	return true
}

// noteMapped notes files that are written through a memory map. Such writes may not change the
// file's times.
func (v *evidence) noteMapped(e *entry, f dirfs.Found) {
	if v.blind != "" {
		return
	}
	is := v.writers[f.State.ID()] == files.ByMap
	if v.mapped[f.Path] && !is {
		v.unsure[e.name] = true
	}
	v.mapped[f.Path] = is
}

// noteTimes notes a file that was closed after writing, but has the same size and time as in the
// last save. Its writer set the time, like cp --preserve does.
func (v *evidence) noteTimes(e, was *entry) (news bool) {
	if v.unsure[e.name] || was == nil || was.name != e.name || e.dir || !e.same(was) || e.top.Ctime == was.top.Ctime ||
		v.changes.Passes[e.name].At[0] <= was.pass {
		return false
	}
	v.unsure[e.name] = true
	return true
}

// isRenamed reports whether the last change of the file or directory was the rename that gave it its
// name, and nothing in it was written since.
func (v *evidence) isRenamed(e *entry, name string, s dirfs.FileState) bool {
	if is, known := v.changes.Renamed[name]; known {
		return is
	}
	return s.Published() && e.newest() <= s.Ctime
}

// look is the time of a look, and the state of the workers just before it.
type instant struct {
	now     time.Time
	workers WorkerState
}

const (
	// settled is longer than the resolution of file times. A file that is written again sooner may
	// look unchanged.
	settled = 50 * time.Millisecond
	// lookLasts is the time that a look may take. A look can find writes that are later than its
	// start.
	lookLasts = time.Second
	// restLimit is how long workers must run after they closed a file whose format does not tell
	// that it is whole: a worker that fails closes it too.
	restLimit = time.Second
)

// young reports whether the newest write is so recent that another write right after it might not
// change the file's time.
func (e *entry) young(now, since time.Time) bool {
	age := time.Duration(now.UnixNano() - e.newest())
	if age < -lookLasts {
		age = now.Sub(since) // the time is from another machine's clock
	}
	return age < settled
}

// judged is an entry whose files are checked.
type judged struct {
	*entry
	since time.Time // when it changed last
	rest  bool      // files whose format cannot tell must have been closed for a second
	given bool      // a rename, or its framework, says that all of it was written
	at    instant
}

// whole notes whether each file of an entry is complete, or which is not.
func (v *evidence) whole(e judged, s *table.Seen) error {
	s.At, s.Why, s.Stuck = v.unready(e)
	if s.Why != "" {
		return nil
	}
	for _, f := range e.files {
		how, err := v.check(e.entry, f)
		if err != nil {
			return err
		}
		if s.Why, s.Stuck = v.incomplete(e, f, how); s.Why != "" {
			s.At = f.Path
			return nil
		}
	}
	s.Whole = true
	return nil
}

// unready says which file of an entry is not ready to be checked, and why.
func (v *evidence) unready(e judged) (file, why string, stuck Reason) {
	switch {
	case e.scratch != "" && !e.given:
		return e.scratch, "a temporary name in the save", ""
	case v.changes.Shrunk[e.name]:
		return e.name, "files of it were removed", ""
	}
	for _, f := range e.files {
		if e.at.workers != Running {
			break
		}
		by, open := v.writers[f.State.ID()]
		switch {
		case open && e.at.now.Sub(e.since) >= openLimit:
			return f.Path, fmt.Sprintf("%s, and did not write for %v: close it after each save, or call "+
				"elastic.saved(%q)", by, openLimit, e.name), table.StaysOpen
		case open:
			return f.Path, by, ""
		case v.blind != "":
			return f.Path, v.blind, ""
		}
	}
	if e.at.workers == Running && !e.given && e.young(e.at.now, e.since) {
		return e.name, "it was written this moment", ""
	}
	return "", "", ""
}

// incomplete says why a file that nobody writes is not known to be complete. how is what its format
// says.
func (v *evidence) incomplete(e judged, f dirfs.Found, how format.Completeness) (why string, stuck Reason) {
	quiet := e.at.now.Sub(e.since) >= restLimit
	closed := v.closed[f.Path].SameBytes(f.State)
	if how == format.Opaque && e.at.workers == Running && quiet && closed {
		v.rested[f.Path] = f.State
	}
	switch {
	case how == format.Torn:
		if why = "it is not whole: by its own format bytes are missing"; f.State.Size == 0 {
			why = "it is empty"
		}
		if quiet {
			stuck = Broken
		}
		return why, stuck
	case e.given, e.at.workers == Exited, v.isRenamed(e.entry, f.Path, f.State):
		return "", ""
	case e.at.workers == Running && how == format.Opaque && e.rest && !quiet:
		return "its format cannot tell that it is whole, so it counts a second after it was closed", ""
	case e.at.workers == Running:
		return "", ""
	case how == format.Opaque && (!closed || e.rest) && !v.rested[f.Path].SameBytes(f.State):
		return "its writer ended, and its format cannot tell that it is whole", ""
	case e.at.workers == Failed && !closed:
		return "its writer failed, and may not have been through with it", ""
	}
	return "", ""
}

// check checks a file by its format. The result is kept until the file changes.
func (v *evidence) check(e *entry, f dirfs.Found) (format.Completeness, error) {
	if f.State.Size == 0 && !e.dir {
		return format.Torn, nil // the writer truncated the file, and has not written it yet
	}
	how, ok := v.sound[f]
	if ok {
		return how, nil
	}
	how, err := format.Check(v.tree, f)
	if errors.Is(err, fs.ErrNotExist) {
		return format.Torn, nil
	}
	if err != nil {
		return format.Torn, err
	}
	if len(v.sound) > manifest.MaxFiles {
		clear(v.sound)
	}
	v.sound[f] = how
	return how, nil
}

// said returns what the framework says about an entry. was is the entry in the last save.
func (v *evidence) said(e, was *entry, share Share) table.Said {
	following := share == Following
	switch {
	case !e.dir && path.Ext(e.name) == ".ckpt":
		return table.Complete
	case !e.dir:
		return table.Nothing
	case e.has(incompleteFile):
		return table.NotYet
	case e.named:
		return table.Complete
	case !following && e.tracked && trackedDir.MatchString(path.Base(e.name)):
		return table.NotYet
	case !following && e.hasExt(".distcp") && !e.has(".metadata"):
		return table.NotYet
	}
	f := e.frameworkFile()
	switch {
	case f == nil:
		return table.Nothing
	case f.State.Size == 0, was.hasSame(*f) && !e.grown(was): // it writes the entry, or writes it again
		return table.NotYet
	}
	return table.Complete
}

// noteHaste notes since when a file is written again before it rested for a second.
func (c *Watcher) noteHaste(s *table.Seen, at instant) {
	if s.Whole || s.Dir {
		delete(c.haste, s.Name)
		return
	}
	if _, ok := c.haste[s.Name]; !ok {
		c.haste[s.Name] = at.now
	}
	if s.Stuck == "" && s.Again && at.now.Sub(c.haste[s.Name]) >= hasteLimit &&
		at.now.Sub(c.since[s.Name]) < restLimit {
		s.Stuck = Overwritten
		s.Why += ", and it is written again sooner: write it under another name, and rename it"
	}
}

// order returns when these workers completed an entry: see table.Seen.
func (c *Watcher) order(e *entry, state WorkerState) (first, last, prior int64) {
	v, ended := c.evidence, state == Failed || state == Killed || c.evidence.blind != ""
	if c.timed {
		return c.first[e.name], e.newest(), c.prior[e.name]
	}
	add := func(name string) {
		p := v.changes.Passes[name]
		l, b := p.At[0], p.At[1]
		if p.Bare && ended {
			l, b = p.At[1], p.At[2]
		}
		if int64(l) > last {
			last, prior = int64(l), int64(b)
		}
		if first == 0 || p.First > 0 && int64(p.First) < first {
			first = int64(p.First)
		}
	}
	add(e.name)
	if e.dir {
		for _, f := range e.files {
			add(f.Path)
		}
	}
	return first, last, prior
}

// see describes an entry to table.Decide.
func (c *Watcher) see(e *entry, at instant) (table.Seen, error) {
	was, fresh := c.base[e.name], c.isFresh(e)
	s := table.Seen{Name: e.name, Dir: e.dir, Family: e.family(), Fresh: fresh, Wrote: !e.same(c.start[e.name])}
	s.Number, s.Counts = e.number()
	s.Old = c.old(e)
	s.Marked = fresh && e.marked(was) && e.newest() <= e.mark.Mtime
	s.Renamed = e.dir && fresh && c.evidence.isRenamed(e, e.name, e.top)
	s.Framework = c.evidence.said(e, was, c.workers.Share)
	s.First, s.Last, s.Prior = c.order(e, at.workers)
	if !fresh {
		s.Whole = true
		return s, nil
	}
	if !e.dir {
		s.Again = c.again(e)
	}
	j := judged{entry: e, since: c.since[e.name], rest: !e.dir && !c.superseded(e), at: at,
		given: c.evidence.isRenamed(e, e.name, e.top) || e.dir && s.Framework == table.Complete}
	if err := c.evidence.whole(j, &s); err != nil {
		return s, fmt.Errorf("%s: %w", e.name, err)
	}
	c.noteHaste(&s, at)
	if s.Whole && !e.dir && c.firsts[s.Family] == nil {
		c.firsts[s.Family] = e
	}
	return s, nil
}

// isFresh reports whether the entry is not as in the last save.
func (c *Watcher) isFresh(e *entry) bool { return !e.same(c.base[e.name]) || c.evidence.unsure[e.name] }

// again reports whether the file is not the first save of its family: an earlier one was seen
// complete, or the checkpoint that the job resumed from is one file of the family.
func (c *Watcher) again(e *entry) bool {
	family := e.family()
	if f := c.firsts[family]; f != nil && (f.name != e.name || !f.same(e) || c.evidence.unsure[e.name]) {
		return true
	}
	return family == c.resumed || c.preceded(e)
}

// preceded reports whether these workers wrote a file of the family with a smaller number.
func (c *Watcher) preceded(e *entry) bool {
	return slices.ContainsFunc(c.sorted, func(o *entry) bool {
		return !o.dir && o.family() == e.family() && o.less(e) && !o.same(c.start[o.name])
	})
}

// superseded reports whether these workers began a file of the family with a larger number.
func (c *Watcher) superseded(e *entry) bool {
	return slices.ContainsFunc(c.sorted, func(o *entry) bool {
		return !o.dir && o.family() == e.family() && e.less(o) && !o.same(c.start[o.name])
	})
}

// old reports whether a directory has a smaller number than the save that was taken last, and was
// not written anew since: files were added to it, or it is being deleted.
func (c *Watcher) old(e *entry) bool {
	was := c.listed[e.name]
	return e.dir && was != nil && c.taken != nil && c.taken.family() == e.family() && e.less(c.taken) &&
		e.top.Ino == was.top.Ino && slices.ContainsFunc(e.files, was.hasSame)
}
