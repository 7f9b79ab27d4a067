package capture

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/elasticd/elastic/pkg/checkpoint/capture/notices"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// entry is a file or the directory of a step, in the state in which a look found it. Its writer
// writes it as a whole.
type entry struct {
	name     string // its path in the checkpoint directory
	dir      bool
	top      dirfs.FileState  // of the name itself
	files    []dirfs.Found    // the files to capture, by path
	scratch  string           // a temporary name in the directory
	deep     string           // a file of it that lies too deep for a manifest
	mark     *dirfs.FileState // the state of the entry's mark: a file that says that it is complete
	progress progress         // the content of the mark
	named    bool             // a tracker file names the entry
	tracked  bool             // a tracker file is beside the entry
}

// progress is what a mark, or a file of the framework, says about a save.
type progress struct {
	Step    *int64 `json:"step"`
	Samples *int64 `json:"samples"`

	Epoch       *int64  `json:"epoch"`
	Consumed    *int64  `json:"consumed"`
	Seed        *uint64 `json:"seed"`
	DatasetSize *int64  `json:"dataset_size"`
}

// cursor returns the position in the data, nil if the script does not state it.
func (t *progress) cursor() *manifest.Cursor {
	if t.Epoch == nil || t.Consumed == nil {
		return nil
	}
	return &manifest.Cursor{Epoch: *t.Epoch, Consumed: *t.Consumed, Seed: t.Seed, DatasetSize: t.DatasetSize}
}

const (
	markFile   = ".elastic-commit" // in a directory
	markSuffix = ".elastic-commit" // after the name of a file
	ownPrefix  = ".elastic-"       // of all names that Elastic makes

	incompleteFile = "checkpoint-is-incomplete.txt" // Hugging Face has it while it writes a save
	maxMetadata    = 1 << 20
)

// same reports whether the entry is as it was in the look that found o. It is also the same if a
// tracker file named it then and does not name it now.
func (e *entry) same(o *entry) bool {
	return o != nil && e.top.SameBytes(o.top) && (!e.named || o.named) && e.scratch == o.scratch &&
		slices.EqualFunc(e.files, o.files,
			func(a, b dirfs.Found) bool { return a.Path == b.Path && a.State.SameBytes(b.State) })
}

// shrunk reports whether files of the directory were deleted since the look that found o, and none
// was written.
func (e *entry) shrunk(o *entry) bool {
	return e.dir && o != nil && e.top.Ino == o.top.Ino && len(e.files) < len(o.files) &&
		!slices.ContainsFunc(e.files, func(f dirfs.Found) bool { return !o.hasSame(f) })
}

// numbered reports whether the name has a digit. The number may be a step, a rank or anything else.
func (e *entry) numbered() bool { return strings.ContainsAny(path.Base(e.name), "0123456789") }

// order returns the number of a name that counts steps or epochs, such as step-120. Of such names
// only the newest is useful.
func (e *entry) order() (n int64, ok bool) {
	if !e.numbered() {
		return 0, false
	}
	m := countName.FindAllStringSubmatch(path.Base(e.name), -1)
	if m == nil {
		return 0, false
	}
	return parse(m[len(m)-1][1])
}

// family returns the name with # in place of each number.
func (e *entry) family() string {
	if !e.numbered() {
		return e.name
	}
	return path.Join(path.Dir(e.name), digits.ReplaceAllString(path.Base(e.name), "#"))
}

// shape returns the names of the entry's files, with # in place of each number.
func (e *entry) shape() string {
	var names []string
	for _, f := range e.files {
		names = append(names, digits.ReplaceAllString(strings.TrimPrefix(f.Path, e.name), "#"))
	}
	slices.Sort(names)
	return strings.Join(names, "\n")
}

func (e *entry) has(name string) bool {
	return slices.ContainsFunc(e.files, func(f dirfs.Found) bool { return f.Path == e.name+"/"+name })
}

func (e *entry) hasExt(ext string) bool {
	return slices.ContainsFunc(e.files, func(f dirfs.Found) bool { return path.Ext(f.Path) == ext })
}

// newest returns the time of the last write to any of the entry's files.
func (e *entry) newest() (t int64) {
	for _, f := range e.files {
		t = max(t, f.State.Mtime)
	}
	return t
}

// Dir is a checkpoint directory.
type Dir struct {
	Path string
	// Exclude are directories that do not belong to it: the agent's state and logs. If FS is set,
	// they are names in FS.
	Exclude []string
	FS      dirfs.FS // the directory, if it is in no file system of this machine
	Queue   *Queue   // for the notices of a watch; nil or in use: the watch opens one of its own
}

// Queue is a queue of the kernel's notices. Watches may use it one after the other. A process that
// may be killed opens it before its connections: see [notices.Queue].
type Queue = notices.Queue

// NewQueue returns nil if the kernel gives no notices. Close the queue after the last watch.
func NewQueue() *Queue { return notices.NewQueue() }

// Open opens the directory. It makes the directory if there is none.
func (d Dir) Open() (dirfs.FS, error) {
	if d.FS != nil {
		return d.FS, nil
	}
	return dirfs.Make(d.Path)
}

// within returns the excluded directories that are below the checkpoint directory, as paths in it.
func (d Dir) within() map[string]bool {
	in := map[string]bool{}
	if d.Path == "" {
		for _, x := range d.Exclude {
			in[x] = true
		}
		return in
	}
	top, err := filepath.EvalSymlinks(d.Path)
	if err != nil {
		return in
	}
	for _, x := range d.Exclude {
		if full, err := filepath.EvalSymlinks(x); err == nil {
			x = full
		}
		rel, err := filepath.Rel(top, x)
		if err == nil && filepath.IsLocal(rel) && rel != "." {
			in[filepath.ToSlash(rel)] = true
		}
	}
	return in
}

// listing is what one look found.
type listing struct {
	tree    dirfs.Reader
	exclude map[string]bool
	entries map[string]*entry
	temps   map[string]dirfs.FileState // temporary names beside the entries
	marks   []string
}

// look lists the entries of a checkpoint directory.
func look(t dirfs.Reader, exclude map[string]bool) (*listing, error) {
	l := &listing{tree: t, exclude: exclude, entries: map[string]*entry{},
		temps: map[string]dirfs.FileState{}}
	top, err := t.ReadDir(".")
	if err == nil {
		err = l.list(".", top, 1)
	}
	if err != nil {
		return nil, err
	}
	for _, name := range l.marks {
		if e := l.entries[strings.TrimSuffix(name, markSuffix)]; e != nil && !e.dir {
			if err := e.takeMark(t, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
	}
	return l, nameTracked(t, l.entries)
}

// list adds the contents of one directory.
func (l *listing) list(dir string, list []fs.DirEntry, depth int) error {
	for _, d := range list {
		name := path.Join(dir, d.Name())
		switch {
		case l.exclude[name]:
		case strings.HasSuffix(name, markSuffix) && d.Name() != markFile:
			l.marks = append(l.marks, name)
		case dir != "." && d.Name() == markFile:
		case !strings.HasPrefix(d.Name(), ownPrefix) && passing(d.Name()):
			if fi, err := l.tree.Lstat(name); err == nil && (fi.Mode().IsRegular() || fi.IsDir()) {
				l.temps[name] = dirfs.StateOf(fi)
			}
		case ignored(d.Name()):
		default:
			if err := l.add(name, depth); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// add adds a file, the directory of a step, or the contents of any other directory.
func (l *listing) add(name string, depth int) error {
	fi, err := l.tree.Lstat(name)
	if err != nil {
		return err
	}
	e := &entry{name: name, dir: fi.IsDir(), top: dirfs.StateOf(fi)}
	if !e.dir && !fi.Mode().IsRegular() {
		return nil
	}
	if _, counted := e.order(); e.dir && !counted {
		list, err := l.tree.ReadDir(name)
		if err != nil || !slices.ContainsFunc(list, func(d fs.DirEntry) bool { return framework(d.Name()) }) {
			return errors.Join(err, l.list(name, list, depth+1))
		}
	}
	files := dirfs.Walker{Tree: l.tree, Skip: func(p string) bool {
		if l.exclude[p] {
			return true
		}
		if passing(path.Base(p)) {
			e.scratch = p
			return true
		}
		return false
	}, Deep: func(p string) { e.deep = p }}
	e.files, err = files.From(name, fi, depth)
	if err != nil {
		return err
	}
	slices.SortFunc(e.files, func(a, b dirfs.Found) int { return strings.Compare(a.Path, b.Path) })
	if len(e.files) == 0 && e.deep == "" {
		return nil
	}
	l.entries[name] = e
	if e.dir && e.has(markFile) {
		return e.takeMark(l.tree, path.Join(name, markFile))
	}
	return nil
}

// framework reports whether a directory that has a file of that name is one save.
func framework(name string) bool {
	switch name {
	case markFile, "trainer_state.json", ".metadata", incompleteFile:
		return true
	}
	return path.Ext(name) == ".distcp"
}

// takeMark reads the mark of e, and makes it part of e.
func (e *entry) takeMark(t dirfs.Reader, name string) error {
	fi, err := t.Lstat(name)
	if err != nil || !fi.Mode().IsRegular() {
		return err
	}
	raw, err := readMetadata(t, name)
	if err != nil {
		return err
	}
	id := dirfs.StateOf(fi)
	e.mark = &id
	if json.Unmarshal(raw, &e.progress) != nil {
		e.progress = progress{} // the entry is complete, whatever its mark contains
	}
	if !e.dir {
		e.files = append(e.files, dirfs.Found{Path: name, Mode: fi.Mode().Perm(), State: id})
	}
	return nil
}

// nameTracked sets tracked on the directories that have a tracker file beside them, and named on
// those that a tracker file names.
func nameTracked(t dirfs.Reader, found map[string]*entry) error {
	for name, e := range found {
		if e.dir || !trackers[path.Base(name)] {
			continue
		}
		raw, err := readMetadata(t, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		said := strings.TrimSpace(string(raw))
		if n, err := strconv.Atoi(said); err == nil {
			said = fmt.Sprintf("iter_%07d", n) // Megatron's tracker has only the number
		}
		if named := found[path.Join(path.Dir(name), said)]; named != nil {
			named.named = true
		}
		for _, x := range found {
			x.tracked = x.tracked || x.dir && path.Dir(x.name) == path.Dir(name)
		}
	}
	return nil
}

// readMetadata reads the start of a small file, at most maxMetadata bytes.
func readMetadata(t dirfs.Reader, name string) ([]byte, error) {
	f, err := t.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxMetadata))
}

// progressOf returns the step and the samples of an entry, as far as they are known: from its mark,
// else from the trainer's own file, else from its name.
func progressOf(t dirfs.Reader, e *entry) (progress, error) {
	var known progress
	if e.mark != nil {
		known = e.progress
	}
	if known.Step != nil {
		return known, nil
	}
	if e.dir && e.has("trainer_state.json") {
		raw, err := readMetadata(t, e.name+"/trainer_state.json")
		if err != nil {
			return known, err
		}
		var state struct {
			Step *int64 `json:"global_step"`
		}
		if json.Unmarshal(raw, &state) == nil && state.Step != nil {
			known.Step = state.Step
			return known, nil
		}
	}
	if m := stepName.FindAllStringSubmatch(path.Base(e.name), -1); m != nil {
		if n, fits := parse(m[len(m)-1][1]); fits {
			known.Step = &n
		}
	}
	return known, nil
}
