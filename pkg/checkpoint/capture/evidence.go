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

// evidence is what the watcher knows about each file: whether a process has it open for writing,
// how often it was closed, and how.
type evidence struct {
	tree    dirfs.Reader
	share   Share
	closed  map[string]dirfs.FileState // the state of each file that was closed while workers ran
	renamed map[string]bool            // names whose last notice is a rename to them
	written map[string]bool            // names that were written since they were closed last
	passes  map[string]notices.Passes  // by name, since the last save
	newest  uint64                     // the newest pass
	settled uint64                     // newest, as it was before the last look
	numbers map[string]numbers         // by family, of this look
	void    map[string]int             // by name: how many passes left the entry incomplete
	writers map[dirfs.FileID]string    // files that are open for writing, with the reason to wait for them
	mapped  map[string]bool            // files that were mapped for writing at the last look
	// unsure has entries that were written since the last save, although sizes and times are equal.
	unsure    map[string]bool
	torn      map[string]tornPass        // closed entries that the last look found incomplete
	voided    map[string]int             // by name: how many passes noteVoid has judged
	unnoticed map[string]dirfs.FileState // files that the last scan found closed, without a notice of the close
	blind     string                     // why open files cannot be seen; "" if they can

	// forWriting is openfiles.ForWriting. Tests replace it.
	forWriting func(roots []int, want map[dirfs.FileID]bool) (open map[dirfs.FileID]string, blind string)
	sound      map[dirfs.Found]format.Completeness // results of format.Check
}

func newEvidence(t dirfs.Reader) *evidence {
	return &evidence{tree: t, forWriting: openfiles.ForWriting,
		closed: map[string]dirfs.FileState{}, renamed: map[string]bool{}, written: map[string]bool{},
		passes: map[string]notices.Passes{}, void: map[string]int{}, torn: map[string]tornPass{},
		voided: map[string]int{}, unnoticed: map[string]dirfs.FileState{},
		mapped: map[string]bool{}, unsure: map[string]bool{}, sound: map[dirfs.Found]format.Completeness{}}
}

// note adds the changes since the last look.
func (v *evidence) note(c *notices.Changes) {
	v.newest = c.Newest
	for name, p := range c.Passes {
		p.Bare = p.Bare && (p.Times > 1 || !v.written[name])
		v.passes[name] = v.passes[name].And(p)
	}
	maps.Copy(v.written, c.Written)
	maps.Copy(v.renamed, c.Renamed)
	if c.Lost {
		clear(v.passes)
		clear(v.renamed)
		clear(v.void)
		clear(v.voided)
		clear(v.torn)
	}
}

// taken forgets the passes that belong to a save that was taken. Later passes stay.
func (v *evidence) taken(taken map[string]notices.Passes) {
	for name, was := range taken {
		if is := v.passes[name]; is.Times > was.Times {
			v.passes[name] = notices.Passes{Times: is.Times - was.Times, First: is.Last, Last: is.Last,
				Bare: is.Bare, Prior: is.Prior}
		} else {
			delete(v.passes, name)
		}
		delete(v.void, name)
		delete(v.voided, name)
		delete(v.torn, name)
		delete(v.unsure, name)
	}
}

// passesOf returns the passes of a name since the last save. The kernel closes the files of a
// worker that fails or is killed. Such a close counts as a pass only if a write came before it.
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
// noticed. The notice may be on its way. Without the notice the pass would not count. So the file counts
// as closed at the next look, if it is the same then: some writes never give the notice of a close.
func (v *evidence) lacksNotice(f dirfs.Found) bool {
	if !v.written[f.Path] || v.closed[f.Path].SameBytes(f.State) || v.unnoticed[f.Path].SameBytes(f.State) {
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
	is := v.writers[f.State.ID()] == openfiles.ByMap
	if v.mapped[f.Path] && !is {
		v.unsure[e.name] = true
		delete(v.mapped, f.Path)
	}
	if is {
		v.mapped[f.Path] = true
	}
}

// noteTimes notes a file that was closed after writing, but has the same size and time as in the
// last save. Its writer set the time, like cp --preserve does.
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

// pending says why a file is not known to be complete. It returns "" if the file is complete.
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

// lookLasts is the time that a look may take. A look can find writes that are later than its start.
const lookLasts = time.Second

// young reports whether the newest write is so recent that another write right after it might not
// change the file's time.
func (e *entry) young(now, since time.Time) bool {
	age := time.Duration(now.UnixNano() - e.newest())
	if age < -lookLasts {
		age = now.Sub(since) // the time is from another machine's clock
	}
	return age < settled
}

// wholeness returns the worst completeness of the entry's files. The result of each file is kept
// until the file changes.
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
			w = format.Torn // the writer truncated the file, and has not written it yet
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

// opaque reports whether one of the entry's files has a format that cannot be checked.
func (v *evidence) opaque(e *entry) bool {
	return slices.ContainsFunc(e.files, func(f dirfs.Found) bool { return v.sound[f] == format.Opaque })
}

// opens returns how often the entry was closed since the last save. For a directory it is the
// count of the file that was closed most often.
func (v *evidence) opens(e *entry, state WorkerState) (n int) {
	if !e.dir {
		return max(0, v.passesOf(e.name, state).Times-v.void[e.name])
	}
	for _, f := range e.files {
		n = max(n, v.passesOf(f.Path, state).Times)
	}
	return n
}

// unfinished says why an entry is not complete, and which file shows it. Both are "" if the entry
// is complete.
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
		v.noteVoid(e, state)
		return e.name, fmt.Sprintf("it is not whole: %s", tornHint(e)), nil
	}
	return "", "", err
}

// tornPass is a closed entry that a look found incomplete.
type tornPass struct {
	state dirfs.FileState
	times int // the passes that the look knew
}

// noteVoid counts the pass that left an incomplete entry, once two looks found the entry closed in the
// same state. One look may find it while its next pass is under way. The passes before this one may have
// been complete, so they count.
func (v *evidence) noteVoid(e *entry, state WorkerState) {
	was, is := v.torn[e.name], tornPass{e.top, v.passes[e.name].Times}
	if !was.state.SameBytes(e.top) && state == Running {
		v.torn[e.name] = is
		return
	}
	if state != Running {
		was = is
	}
	if was.times > v.voided[e.name] {
		v.void[e.name]++
		v.voided[e.name] = was.times
	}
}

func tornHint(e *entry) string {
	for _, f := range e.files {
		if f.State.Size == 0 {
			return path.Base(f.Path) + " is empty"
		}
	}
	return "by its own format bytes are missing"
}
