package capture

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/capture/files"

	"github.com/elasticd/elastic/pkg/checkpoint/capture/table"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// instant is the time of a look, and the state of the workers just before it.
type instant struct {
	now     time.Time
	workers WorkerState
}

const (
	// settled is longer than the resolution of file times. A file that is written again sooner, while it
	// is copied, may look unchanged.
	settled = 50 * time.Millisecond
	// restLimit is how long workers must run after they closed a file whose format does not tell that it
	// is whole: a worker that fails closes it too.
	restLimit = time.Second
)

// see describes an entry to table.Decide.
func (c *Watcher) see(e *entry, at instant) (table.Seen, error) {
	was, fresh := c.base[e.name], c.isFresh(e)
	s := table.Seen{Name: e.name, Dir: e.dir, Family: e.family(), Fresh: fresh, Old: c.old(e),
		Wrote: !e.same(c.start[e.name]), Renamed: e.dir && fresh && c.isRenamed(e, e.name, e.top),
		Framework: e.says(was, c.workers.Share)}
	s.Number, s.Counts = e.number()
	s.First, s.Last, s.Prior = c.order(e)
	s.Marked = fresh && e.marked(was) && c.markedLast(e)
	if !fresh {
		s.Whole = true
		return s, nil
	}
	f := c.firsts[s.Family]
	s.Again = !e.dir && (s.Family == c.resumed || f != nil && (f.name != e.name || f.done < e.done))
	given := c.isRenamed(e, e.name, e.top) || e.dir && s.Framework == table.Complete
	if err := c.whole(judged{e, given, at}, &s); err != nil {
		return s, fmt.Errorf("%s: %w", e.name, err)
	}
	if s.Framework == table.Complete && !e.dir && path.Base(e.name) != table.LastFile &&
		at.workers == Running && at.now.Sub(c.since[e.name]) < restLimit {
		s.Rests, s.Why = true, "the same save may be written again, as "+table.LastFile
	}
	if s.Whole && !s.Rests && !e.dir && f == nil {
		c.firsts[s.Family] = e
	}
	return s, nil
}

// markedLast reports whether nothing of the entry was written after its mark. A file may get its name later.
func (c *Watcher) markedLast(e *entry) bool {
	marked := c.changes.Passes[e.markName()].Last
	if slices.ContainsFunc(e.files, func(f dirfs.Found) bool {
		at, open := c.changes.Open[f.Path]
		return open && at >= marked
	}) {
		return false
	}
	return marked >= e.done ||
		c.changes.Renamed[e.name] && e.newest() <= e.mark.Mtime
}

// isFresh reports whether the entry was written since the last save.
func (c *Watcher) isFresh(e *entry) bool {
	was := c.base[e.name]
	return !e.same(was) || e.done > was.done
}

// isRenamed reports whether the last change of the file or directory was the rename that gave it its
// name, and nothing in it was written since.
func (c *Watcher) isRenamed(e *entry, name string, s dirfs.FileState) bool {
	if is, known := c.changes.Renamed[name]; known {
		return is
	}
	return s.Published() && e.newest() <= s.Ctime
}

// old reports whether a directory has a smaller number than the save that was taken last, and was
// not written anew since: files were added to it, or it is being deleted.
func (c *Watcher) old(e *entry) bool {
	was := c.listed[e.name]
	return e.dir && was != nil && c.taken != nil && c.taken.family() == e.family() && e.less(c.taken) &&
		e.top.Ino == was.top.Ino && slices.ContainsFunc(e.files, was.hasSame)
}

// order returns when these workers completed an entry: see table.Seen.
func (c *Watcher) order(e *entry) (first, last, prior uint64) {
	for _, name := range e.names() {
		p := c.changes.Passes[name]
		if p.Last > last {
			last, prior = p.Last, p.Prior
		}
		if p.First > 0 && (first == 0 || p.First < first) {
			first = p.First
		}
	}
	return first, last, prior
}

// judged is an entry in a look.
type judged struct {
	*entry
	given bool // a rename or its framework says that all of it was written
	at    instant
}

// whole notes whether each file of an entry is complete, or which one is not.
func (c *Watcher) whole(e judged, s *table.Seen) error {
	at, given := e.at, e.given
	running, quiet := at.workers == Running, at.now.Sub(c.since[e.name])
	switch {
	case e.scratch != "" && !given:
		s.At, s.Why = e.scratch, "a temporary name in the save"
		return nil
	case c.changes.Shrunk[e.name], c.guessed(e.entry) && e.emptied():
		s.At, s.Why = e.name, "files of it were removed"
		return nil
	case running && !given && quiet < settled:
		s.At, s.Why = e.name, "it was written this moment"
		return nil
	}
	for _, f := range e.files {
		how, err := c.check(e.entry, f)
		if err != nil {
			return err
		}
		if s.Why, s.Stuck = c.incomplete(e, f, how); s.Why != "" {
			s.At = f.Path
			return nil
		}
		if how == files.Opaque && !given && !c.isRenamed(e.entry, f.Path, f.State) {
			c.rest(e, f, s)
		}
	}
	s.Whole = true
	return nil
}

// guessed reports whether a file of the entry was written before notices of it came.
func (c *Watcher) guessed(e *entry) bool {
	return slices.ContainsFunc(e.files, func(f dirfs.Found) bool { return c.changes.Passes[f.Path].Guessed })
}

// incomplete says why a file is not complete. how is what its format says.
func (c *Watcher) incomplete(e judged, f dirfs.Found, how files.Completeness) (why string, stuck Reason) {
	at := e.at
	quiet := at.now.Sub(c.since[e.name])
	switch {
	case at.workers == Running && c.changes.IsOpen(f.Path):
		why = "a worker has it open for writing"
		if quiet >= openLimit {
			return fmt.Sprintf("%s, and did not write for %v: close it after each save, or call "+
				"elastic.saved(%q)", why, openLimit, e.name), table.StaysOpen
		}
		return why, ""
	case how == files.Torn:
		if why = "it is not whole: by its own format bytes are missing"; f.State.Size == 0 {
			why = "it is empty"
		}
		if quiet >= restLimit {
			stuck = table.Broken
		}
		return why, stuck
	case at.workers == Failed && c.changes.Passes[f.Path].Last > c.alive &&
		!c.isRenamed(e.entry, f.Path, f.State):
		return "its writer failed, and may not have been through with it", ""
	}
	return "", ""
}

// rest notes whether workers ran for a second after they closed a file whose format cannot tell that it is
// whole.
func (c *Watcher) rest(e judged, f dirfs.Found, s *table.Seen) {
	at := e.at
	p := c.changes.Passes[f.Path]
	switch {
	case at.workers == Exited:
		return
	case p.Guessed && !e.dir:
		s.Rests, s.Why = true, "its format cannot tell that it is whole, and no notice told that it was closed"
		if c.notices == nil {
			s.Why += ": write it under another name and rename it, or call elastic.saved"
			s.Stuck = table.Broken
		}
	case at.workers == Running && at.now.Sub(c.since[e.name]) >= restLimit:
		c.rested[e.name] = e.done
	case c.rested[e.name] == e.done && e.done > 0:
	case at.workers == Running && !e.dir && s.Again && p.Count-c.base[e.name].times() >= hasteLimit:
		s.Rests, s.Why, s.Stuck = true, fmt.Sprintf("it was written %d times, each within a second: write it "+
			"under another name, and rename it", hasteLimit), table.Overwritten
	case at.workers == Running:
		s.Rests = !e.dir
		s.Why = "its format cannot tell that it is whole, so it counts a second after it was closed"
	default:
		s.Rests = s.Rests || !e.dir || p.Last > c.alive
		s.Why = "its writer ended, and its format cannot tell that it is whole"
	}
	s.At = cmp.Or(s.At, f.Path)
}

// check checks a file by its format. The result is kept until the file changes.
func (c *Watcher) check(e *entry, f dirfs.Found) (files.Completeness, error) {
	if f.State.Size == 0 && !e.dir {
		return files.Torn, nil // the writer truncated the file, and has not written it yet
	}
	how, ok := c.sound[f]
	if ok {
		return how, nil
	}
	how, err := files.Check(c.tree, f)
	if errors.Is(err, fs.ErrNotExist) {
		return files.Torn, nil
	}
	if err != nil {
		return files.Torn, err
	}
	if len(c.sound) > manifest.MaxFiles {
		clear(c.sound)
	}
	c.sound[f] = how
	return how, nil
}

// says returns what its framework says about an entry. was is the entry in the last save.
func (e *entry) says(was *entry, share Share) table.Said {
	leads := share != Following // the other nodes do not write the framework's file
	f := e.frameworkFile()
	switch {
	case !e.dir && path.Ext(e.name) == ".ckpt":
		return table.Complete
	case !e.dir:
		return table.Nothing
	case e.has(incompleteFile):
		return table.NotYet
	case e.named:
		return table.Complete
	case leads && e.tracked && trackedDir.MatchString(path.Base(e.name)),
		leads && e.hasExt(".distcp") && !e.has(".metadata"):
		return table.NotYet
	case f == nil:
		return table.Nothing
	case f.State.Size == 0, was.hasSame(*f) && !e.grown(was): // it writes the entry, or writes it again
		return table.NotYet
	}
	return table.Complete
}

// changed returns the files that changed since the last look, in the order of their times.
func changed(found, last map[string]*entry) (changed []files.Changed) {
	was := map[string]dirfs.FileState{}
	for _, e := range last {
		for _, x := range e.files {
			was[x.Path] = x.State
		}
	}
	var all []dirfs.Found
	for _, e := range found {
		for _, x := range e.files {
			if s, there := was[x.Path]; !there || !x.State.SameBytes(s) {
				all = append(all, x)
			}
		}
	}
	slices.SortFunc(all, func(a, b dirfs.Found) int {
		return cmp.Or(cmp.Compare(a.State.Mtime, b.State.Mtime), isMark(a.Path)-isMark(b.Path),
			cmp.Compare(a.Path, b.Path))
	})
	for _, x := range all {
		_, there := was[x.Path]
		changed = append(changed, files.Changed{Name: x.Path, IsNew: !there})
	}
	return changed
}

// isMark is 1 for a mark, and 0 for another file.
func isMark(name string) int {
	if strings.HasSuffix(name, markSuffix) {
		return 1
	}
	return 0
}
