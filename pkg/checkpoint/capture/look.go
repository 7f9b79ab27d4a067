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

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// entry is what is written as one, as it was seen: a file, or the directory of a step.
type entry struct {
	name     string // its path in the checkpoint directory
	dir      bool
	top      dirfs.FileState  // of the name itself
	files    []dirfs.Found    // by path: what would be captured
	scratch  string           // a temporary name in it
	mark     *dirfs.FileState // of the file that says that the entry is complete
	progress progress         // what that file says
	named    bool             // a tracker file names it
	tracked  bool             // a tracker file is beside it
}

// progress is what a mark, or a file of the framework, says of a save.
type progress struct {
	Step    *int64 `json:"step"`
	Samples *int64 `json:"samples"`

	Epoch       *int64  `json:"epoch"`
	Consumed    *int64  `json:"consumed"`
	Seed        *uint64 `json:"seed"`
	DatasetSize *int64  `json:"dataset_size"`
}

// cursor is the position in the data, nil if the script tells none.
func (t *progress) cursor() *manifest.Cursor {
	if t.Epoch == nil || t.Consumed == nil {
		return nil
	}
	return &manifest.Cursor{Epoch: *t.Epoch, Consumed: *t.Consumed, Seed: t.Seed, DatasetSize: t.DatasetSize}
}

const (
	markFile   = ".elastic-commit" // in a directory
	markSuffix = ".elastic-commit" // after the name of a file
	ownPrefix  = ".elastic-"       // begins the names that Elastic makes

	incompleteFile = "checkpoint-is-incomplete.txt" // Hugging Face's, while it writes
	maxMetadata    = 1 << 20
)

// same reports whether nothing changed since the look that found o. That its tracker file names
// another directory now is no change.
func (e *entry) same(o *entry) bool {
	return o != nil && e.top.SameBytes(o.top) && (!e.named || o.named) && e.scratch == o.scratch &&
		slices.EqualFunc(e.files, o.files,
			func(a, b dirfs.Found) bool { return a.Path == b.Path && a.State.SameBytes(b.State) })
}

// shrunk reports whether files of a directory were deleted since the look that found o, and none was
// written.
func (e *entry) shrunk(o *entry) bool {
	return e.dir && o != nil && e.top.Ino == o.top.Ino && len(e.files) < len(o.files) &&
		!slices.ContainsFunc(e.files, func(f dirfs.Found) bool { return !o.hasSame(f) })
}

// numbered reports whether the name has a number: that of a step, or of a rank, or of nothing.
func (e *entry) numbered() bool { return strings.ContainsAny(path.Base(e.name), "0123456789") }

// order is the number of a name that counts something up: of those only the newest are of use.
func (e *entry) order() (n int64, ok bool) {
	if !e.numbered() {
		return 0, false
	}
	m := countName.FindAllStringSubmatch(path.Base(e.name), -1)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(m[len(m)-1][1], 10, 64)
	return n, err == nil
}

// family is the name without its numbers.
func (e *entry) family() string {
	if !e.numbered() {
		return e.name
	}
	return path.Join(path.Dir(e.name), digits.ReplaceAllString(path.Base(e.name), "#"))
}

// shape is the names of its files, without their numbers.
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

// newest is the time of the last write to any of its files.
func (e *entry) newest() (t int64) {
	for _, f := range e.files {
		t = max(t, f.State.Mtime)
	}
	return t
}

// Dir is a checkpoint directory.
type Dir struct {
	Path string
	// Exclude are directories that are no part of it: where the agent keeps its state and its logs.
	// With FS they are names in it.
	Exclude []string
	FS      dirfs.FS // the directory itself, where it is in no file system of this machine
}

// Open opens the directory, and makes it if need be.
func (d Dir) Open() (dirfs.FS, error) {
	if d.FS != nil {
		return d.FS, nil
	}
	return dirfs.Make(d.Path)
}

// within are the excluded directories below the checkpoint directory, as paths in it.
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
	temps   map[string]dirfs.FileState // files of temporary names beside the entries
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

// list adds what is in one directory.
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

// add adds a file, the directory of a step, or what is in any other directory.
func (l *listing) add(name string, depth int) error {
	fi, err := l.tree.Lstat(name)
	if err != nil {
		return err
	}
	e := &entry{name: name, dir: fi.IsDir(), top: dirfs.StateOf(fi)}
	if !e.dir && !fi.Mode().IsRegular() {
		return nil
	}
	if depth > manifest.MaxDepth {
		return manifest.ErrTooDeep{Path: name}
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
	}}
	e.files, err = files.From(name, fi, depth)
	if err != nil {
		return err
	}
	slices.SortFunc(e.files, func(a, b dirfs.Found) int { return strings.Compare(a.Path, b.Path) })
	if len(e.files) == 0 {
		return nil
	}
	l.entries[name] = e
	if e.dir && e.has(markFile) {
		return e.takeMark(l.tree, path.Join(name, markFile))
	}
	return nil
}

// framework reports whether a file of that name makes the directory that it is in a save as a
// whole.
func framework(name string) bool {
	switch name {
	case markFile, "trainer_state.json", ".metadata", incompleteFile:
		return true
	}
	return path.Ext(name) == ".distcp"
}

// takeMark reads the file that says that e is complete, and makes it part of e.
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
		e.progress = progress{} // complete all the same
	}
	if !e.dir {
		e.files = append(e.files, dirfs.Found{Path: name, Mode: fi.Mode().Perm(), State: id})
	}
	return nil
}

// nameTracked marks the directories that have a tracker beside them, and those that one names.
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
			said = fmt.Sprintf("iter_%07d", n) // Megatron names it by its number
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

func readMetadata(t dirfs.Reader, name string) ([]byte, error) {
	f, err := t.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxMetadata))
}

// progressOf is what is known of the step and the samples of an entry: by its
// mark, by the trainer's own file, by its name.
func progressOf(t dirfs.Reader, e *entry) (progress, error) {
	if e.mark != nil {
		return e.progress, nil
	}
	if e.dir && e.has("trainer_state.json") {
		raw, err := readMetadata(t, e.name+"/trainer_state.json")
		if err != nil {
			return progress{}, err
		}
		var state struct {
			Step *int64 `json:"global_step"`
		}
		if json.Unmarshal(raw, &state) == nil && state.Step != nil {
			return progress{Step: state.Step}, nil
		}
	}
	if m := stepName.FindAllStringSubmatch(path.Base(e.name), -1); m != nil {
		if n, err := strconv.ParseInt(m[len(m)-1][1], 10, 64); err == nil {
			return progress{Step: &n}, nil
		}
	}
	return progress{}, nil
}
