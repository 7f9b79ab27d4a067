package capture

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/capture/format"
	"github.com/elasticd/elastic/pkg/checkpoint/capture/notices"
	"github.com/elasticd/elastic/pkg/checkpoint/capture/openfiles"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// evidence is what is known of the files: which processes have them open for writing, and which
// closed them.
type evidence struct {
	tree    dirfs.Reader
	share   Share
	closed  map[string]dirfs.FileState // as each file was when it was seen closed, its writers alive
	renamed map[string]bool            // names whose last notice is a rename to them
	written map[string]bool            // names that were written since they were closed last
	passes  map[string]notices.Passes  // by name, since the last save, by the notices
	newest  uint64                     // the newest pass
	settled uint64                     // the newest pass before the last look
	numbers map[string]numbers         // by family, of this look
	void    map[string]int             // those of passes after which the entry was not whole
	writers map[dirfs.FileID]string    // files that are open for writing, with the reason to wait for them
	mapped  map[string]bool            // files that were mapped for writing when they were last looked at
	// entries that were written since the last save, and look as they did in it
	unsure map[string]bool
	blind  string // why open files cannot be seen
	// forWriting is openfiles.ForWriting, but for workers that a test plays.
	forWriting func(roots []int, want map[dirfs.FileID]bool) (open map[dirfs.FileID]string, blind string)
	sound      map[dirfs.Found]format.Completeness
}

func newEvidence(t dirfs.Reader) *evidence {
	return &evidence{tree: t, forWriting: openfiles.ForWriting,
		closed: map[string]dirfs.FileState{}, renamed: map[string]bool{}, written: map[string]bool{},
		passes: map[string]notices.Passes{}, void: map[string]int{},
		mapped: map[string]bool{}, unsure: map[string]bool{}, sound: map[dirfs.Found]format.Completeness{}}
}

// note adds the changes since the last look.
func (v *evidence) note(c *notices.Changes) {
	v.settled, v.newest = v.newest, c.Newest
	for name, p := range c.Passes {
		p.Bare = p.Bare && (p.Times > 1 || !v.written[name])
		v.passes[name] = v.passes[name].And(p)
	}
	maps.Copy(v.written, c.Written)
	maps.Copy(v.renamed, c.Renamed)
	if c.Lost {
		clear(v.passes)
		clear(v.renamed)
	}
}

// taken forgets what belongs to a save that was taken. Passes of since then stay.
func (v *evidence) taken(taken map[string]notices.Passes) {
	for name, was := range taken {
		if is := v.passes[name]; is.Times > was.Times {
			v.passes[name] = notices.Passes{Times: is.Times - was.Times, First: is.Last, Last: is.Last,
				Bare: is.Bare, Prior: is.Prior}
		} else {
			delete(v.passes, name)
		}
		delete(v.void, name)
		delete(v.unsure, name)
	}
}

// passesOf are the passes of a name since the last save. The end of a worker that fails or dies
// closes its files: that is a pass only where something was written before.
func (v *evidence) passesOf(name string, state WorkerState) notices.Passes {
	if state == Failed || state == Killed || v.blind != "" {
		return v.passes[name].WithoutBare()
	}
	return v.passes[name]
}

// scan finds the processes that have files of the fresh entries open for writing.
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
	for _, e := range fresh {
		for _, f := range e.files {
			v.noteMapped(e, f)
			if _, open := v.writers[f.State.ID()]; !open && v.blind == "" {
				v.closed[f.Path] = f.State
			}
		}
	}
}

// noteMapped remembers files that are written through a memory map: their times may stay as they
// were.
func (v *evidence) noteMapped(e *entry, f dirfs.Found) {
	if v.blind != "" {
		return
	}
	is := v.writers[f.State.ID()] == openfiles.ByMap
	if v.mapped[f.Path] && !is {
		v.unsure[e.name] = true
		delete(v.mapped, f.Path)
	}
	if is {
		v.mapped[f.Path] = true
	}
}

// noteTimes remembers a file that was closed after writing and has the size and the time of the
// last save all the same: its writer set the time, as a copy does that keeps it.
func (v *evidence) noteTimes(e, was *entry) {
	if was != nil && !e.dir && v.passes[e.name].Times > 0 && e.same(was) && e.top.Ctime != was.top.Ctime {
		v.unsure[e.name] = true
	}
}

// isRenamed reports whether the last change of the file or directory was the rename that gave it
// its name.
func (v *evidence) isRenamed(e *entry, name string, s dirfs.FileState) bool {
	return v.renamed[name] || s.Published() && e.newest() <= s.Ctime
}

// pending says why a file is not known to be complete; "" if it is. final reports whether that will
// not change any more.
func (v *evidence) pending(e *entry, f dirfs.Found, state WorkerState) (why string) {
	renamed := v.isRenamed(e, e.name, e.top) || v.isRenamed(e, f.Path, f.State)
	switch by, open := v.writers[f.State.ID()]; {
	case open:
		return by
	case state == Exited || renamed:
		return ""
	case v.closed[f.Path].SameBytes(f.State):
		return ""
	case state == Failed:
		return "its writer failed, and may not have been through with it"
	case state == Killed:
		return "the signal that ended its writer may have cut it short"
	}
	return v.blind
}

// young reports whether the newest write is so new that another one right after it may not show in
// the times.
func (e *entry) young(now, since time.Time) bool {
	age := time.Duration(now.UnixNano() - e.newest())
	if age < 0 {
		age = now.Sub(since) // another machine's clock
	}
	return age < settled
}

// wholeness is the worst of the entry's files. What was found is remembered while a file stays as
// it is.
func (v *evidence) wholeness(e *entry) (format.Completeness, error) {
	result := format.Whole
	for _, f := range e.files {
		w, ok := v.sound[f]
		if !ok {
			var err error
			if w, err = format.Check(v.tree, f); errors.Is(err, fs.ErrNotExist) {
				return format.Torn, nil
			} else if err != nil {
				return format.Torn, err
			}
			if len(v.sound) > manifest.MaxFiles {
				clear(v.sound)
			}
			v.sound[f] = w
		}
		if f.State.Size == 0 && !e.dir {
			w = format.Torn // truncated, to be written
		}
		if w == format.Torn {
			return format.Torn, nil
		}
		if w == format.Opaque {
			result = format.Opaque
		}
	}
	return result, nil
}

// opaque reports whether the format of one of the entry's files does not tell whether it is whole.
func (v *evidence) opaque(e *entry) bool {
	return slices.ContainsFunc(e.files, func(f dirfs.Found) bool { return v.sound[f] == format.Opaque })
}

// opens is how often the entry was closed since the last save; of a directory, the file of it that was
// closed most often.
func (v *evidence) opens(e *entry, state WorkerState) (n int) {
	if !e.dir {
		return max(0, v.passesOf(e.name, state).Times-v.void[e.name])
	}
	for _, f := range e.files {
		n = max(n, v.passesOf(f.Path, state).Times)
	}
	return n
}

// unfinished says why an entry is not complete, and names the file; "" if it is.
func (v *evidence) unfinished(e *entry, since, now time.Time, state WorkerState) (at, why string, err error) {
	renamed := v.isRenamed(e, e.name, e.top)
	switch {
	case e.dir && e.has(incompleteFile):
		return path.Join(e.name, incompleteFile), "it says that the save is not complete", nil
	case v.share != Following && e.dir && e.hasExt(".distcp") && !e.has(".metadata"):
		return e.name, "its .metadata is missing, which comes last", nil
	case v.share != Following && (state != Running || e.tracked) &&
		trackedDir.MatchString(path.Base(e.name)) && !e.named:
		return e.name, "the tracker file that its framework writes last does not name it", nil
	case e.scratch != "" && !renamed:
		return e.scratch, "a temporary name in the save", nil
	}
	for _, f := range e.files {
		if why := v.pending(e, f, state); why != "" {
			return f.Path, why, nil
		}
	}
	if state == Running && !renamed && e.young(now, since) {
		return e.name, "it was written this moment", nil
	}
	w, err := v.wholeness(e)
	if err == nil && w == format.Torn {
		v.void[e.name] = v.passes[e.name].Times
		return e.name, fmt.Sprintf("it is not whole: %s", tornHint(e)), nil
	}
	return "", "", err
}

func tornHint(e *entry) string {
	for _, f := range e.files {
		if f.State.Size == 0 {
			return path.Base(f.Path) + " is empty"
		}
	}
	return "by its own format bytes are missing"
}
