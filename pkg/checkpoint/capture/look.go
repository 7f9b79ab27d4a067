package capture

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/elasticd/elastic/pkg/checkpoint/capture/files"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
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
	tracks   bool             // it is a tracker file
	tracked  bool             // a tracker file is beside the entry
	named    bool             // it names the entry, and was written last
	tracker  dirfs.Found      // if it is named
	done     uint64           // its newest pass
	count    int              // how often it was completed, if it is a file
}

const (
	markFile   = ".elastic-commit" // in a directory
	markSuffix = ".elastic-commit" // after the name of a file

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

// emptied reports whether the names in the directory changed after the last change of any of its files:
// one was removed.
func (e *entry) emptied() bool {
	return e.dir && !slices.ContainsFunc(e.files, func(f dirfs.Found) bool {
		return max(f.State.Mtime, f.State.Ctime) >= e.top.Mtime
	})
}

// number returns the number of a name that counts steps or epochs, such as step-120: the last one.
func (e *entry) number() (n int64, ok bool) {
	base := path.Base(e.name)
	at := e.counted()
	if at == nil {
		return 0, false
	}
	last := at[len(at)-1]
	return parse(base[last[0]:last[1]])
}

// less reports whether the number of e is smaller than that of o, of the same family.
func (e *entry) less(o *entry) bool {
	a, _ := e.number()
	b, _ := o.number()
	return a < b
}

// family returns the name with # in place of each number that counts.
func (e *entry) family() string {
	base, from := path.Base(e.name), 0
	var b strings.Builder
	for _, at := range e.counted() {
		b.WriteString(base[from:at[0]] + "#")
		from = at[1]
	}
	return path.Join(path.Dir(e.name), b.String()+base[from:])
}

// hasSame reports whether the entry has the file f, in the same state.
func (e *entry) hasSame(f dirfs.Found) bool {
	return e != nil && slices.ContainsFunc(e.files, func(o dirfs.Found) bool {
		return o.Path == f.Path && o.State.SameBytes(f.State)
	})
}

// grown reports whether files were added to the directory since the look that found o, and none was
// changed.
func (e *entry) grown(o *entry) bool {
	return len(e.files) > len(o.files) && !slices.ContainsFunc(o.files, func(f dirfs.Found) bool {
		return !e.hasSame(f)
	})
}

// marked reports whether the mark was written since the look that found o.
func (e *entry) marked(o *entry) bool {
	return e.mark != nil && (o == nil || o.mark == nil || !e.mark.SameBytes(*o.mark))
}

// frameworkFile returns the file that a framework writes last into the directory; nil: there is none.
func (e *entry) frameworkFile() *dirfs.Found {
	for i, f := range e.files {
		name, in := strings.CutPrefix(f.Path, e.name+"/")
		if in && (name == "trainer_state.json" || name == ".metadata" ||
			name == "latest" && path.Ext(e.name) == ".ckpt") {
			return &e.files[i]
		}
	}
	return nil
}

func (e *entry) has(name string) bool {
	return slices.ContainsFunc(e.files, func(f dirfs.Found) bool { return f.Path == e.name+"/"+name })
}

func (e *entry) hasExt(ext string) bool {
	return slices.ContainsFunc(e.files, func(f dirfs.Found) bool { return path.Ext(f.Path) == ext })
}

// names are those of the entry and its files.
func (e *entry) names() []string {
	all := []string{e.name}
	for _, f := range e.files {
		if f.Path != e.name {
			all = append(all, f.Path)
		}
	}
	return all
}

// times returns how often a file was completed.
func (e *entry) times() int {
	if e == nil {
		return 0
	}
	return e.count
}

// markName returns the name of the entry's mark.
func (e *entry) markName() string {
	if e.dir {
		return path.Join(e.name, markFile)
	}
	return e.name + markSuffix
}

// newest returns the time of the last write to any of the entry's files.
func (e *entry) newest() (t int64) {
	for _, f := range e.files {
		t = max(t, f.State.Mtime)
	}
	return t
}

// listing is what one look found.
type listing struct {
	tree    dirfs.Reader
	exclude map[string]bool
	renamed map[string]bool // directories that were renamed to their names
	entries map[string]*entry
	marks   []string
	root    fs.FileInfo                // of the checkpoint directory
	foreign map[string]dirfs.FileState // what another user put there: no worker wrote it
}

// look lists the entries of a checkpoint directory.
func look(t dirfs.Reader, exclude, renamed map[string]bool) (*listing, error) {
	l := &listing{tree: t, exclude: exclude, renamed: renamed, entries: map[string]*entry{},
		foreign: map[string]dirfs.FileState{}}
	top, err := t.ReadDir(".")
	if err == nil {
		l.root, err = t.Lstat(".")
	}
	if err == nil {
		err = l.list(".", top, 1)
	}
	if err != nil {
		return nil, err
	}
	for _, name := range l.marks {
		if e := l.entries[strings.TrimSuffix(name, markSuffix)]; e != nil && !e.dir {
			if err := e.takeMark(l, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
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
		case files.Ignored(d.Name()), !d.IsDir() && path.Ext(name) == ".py":
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
	if dirfs.Foreign(fi, l.root) {
		l.foreign[name] = e.top
		return nil
	}
	if _, counts := e.number(); e.dir && !counts && !l.renamed[name] && path.Ext(name) != ".ckpt" {
		list, err := l.tree.ReadDir(name)
		if err != nil || !slices.ContainsFunc(list, func(d fs.DirEntry) bool { return framework(d.Name()) }) {
			return errors.Join(err, l.list(name, list, depth+1))
		}
	}
	files := dirfs.Walker{Tree: l.tree, In: l.root, Skip: func(p string) bool {
		if l.exclude[p] {
			return true
		}
		if files.Passing(path.Base(p)) {
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
		return e.takeMark(l, path.Join(name, markFile))
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
func (e *entry) takeMark(l *listing, name string) error {
	fi, err := l.tree.Lstat(name)
	if err != nil || !fi.Mode().IsRegular() || dirfs.Foreign(fi, l.root) {
		return err
	}
	raw, err := readMetadata(l.tree, name)
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
		named := found[path.Join(path.Dir(name), said)]
		if named != nil && named.newest() <= e.top.Mtime {
			named.named, named.tracker = true, e.files[0]
		}
		for _, x := range found {
			if x.dir && path.Dir(x.name) == path.Dir(name) {
				x.tracked, e.tracks = true, true
			}
		}
	}
	return nil
}
