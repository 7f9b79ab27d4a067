package capture

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// entry is one name at the top of a checkpoint directory, as it was seen.
type entry struct {
	name    string
	dir     bool
	top     dirfs.FileState  // of the name itself
	files   []dirfs.Found    // by path: what would be captured
	scratch bool             // somebody is writing beside them
	mark    *dirfs.FileState // of the file that says that the entry is complete
	told    told             // what that file says
	named   bool             // a tracker file names it
}

// told is what a mark, or a file of the framework, says of a save.
type told struct {
	Step    *int64 `json:"step"`
	Samples *int64 `json:"samples"`

	Epoch       *int64  `json:"epoch"`
	Consumed    *int64  `json:"consumed"`
	Seed        *uint64 `json:"seed"`
	DatasetSize *int64  `json:"dataset_size"`
}

// cursor is the position in the data, nil if the script tells none.
func (t *told) cursor() *manifest.Cursor {
	if t.Epoch == nil || t.Consumed == nil {
		return nil
	}
	return &manifest.Cursor{Epoch: *t.Epoch, Consumed: *t.Consumed, Seed: t.Seed, DatasetSize: t.DatasetSize}
}

const (
	markFile   = ".elastic-commit" // in a directory
	markSuffix = ".elastic-commit" // after the name of a file
	maxTold    = 1 << 20
)

// same reports whether nothing changed between two looks at an entry.
func (e *entry) same(o *entry) bool {
	return o != nil && e.top.SameBytes(o.top) && e.named == o.named && e.scratch == o.scratch &&
		slices.EqualFunc(e.files, o.files, func(a, b dirfs.Found) bool { return a.Path == b.Path && a.State.SameBytes(b.State) })
}

// numbered reports whether the name has a number: that of a step, or of a rank, or of nothing.
func (e *entry) numbered() bool { return digits.MatchString(e.name) }

// order is the number of a name that counts something up: of those only the newest are of use.
func (e *entry) order() (n int64, ok bool) {
	m := countName.FindAllStringSubmatch(e.name, -1)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(m[len(m)-1][1], 10, 64)
	return n, err == nil
}

// family is the name without its numbers.
func (e *entry) family() string { return digits.ReplaceAllString(e.name, "#") }

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

var (
	digits     = regexp.MustCompile(`\d+`)
	stepName   = regexp.MustCompile(`(?i)(?:^|[^a-z])(?:global_?step|steps?|iter|iterations?|checkpoint|ckpt)[-_=]?(\d+)`)
	countName  = regexp.MustCompile(`(?i)(?:(?:^|[^a-z])(?:global_?step|steps?|iter|iterations?|checkpoint|ckpt|epochs?)[-_=]?|^)(\d+)`)
	trackedDir = regexp.MustCompile(`^(?:iter_\d{7}|global_step\d+)$`)
	tmpName    = regexp.MustCompile(`(?i)(?:^|[._-])(?:tmp|temp)(?:[._-]|\d|$)`)
)

// trackers are the files by which Megatron and DeepSpeed name a directory that is complete.
var trackers = map[string]bool{"latest_checkpointed_iteration.txt": true, "latest": true}

// passing reports whether a name is one under which programs write what they rename later.
func passing(name string) bool {
	if name == markFile || name == ".metadata" {
		return false
	}
	switch path.Ext(name) {
	case ".part", ".partial", ".incomplete", ".swp", ".lock":
		return true
	}
	return strings.HasSuffix(name, "~") || strings.HasPrefix(name, "tmp") || strings.HasPrefix(name, ".nfs") ||
		strings.HasPrefix(name, ".#") || tmpName.MatchString(name)
}

// ignored reports whether a name at the top is never part of a save: hidden
// ones, those of passing files, and the logs that frameworks keep beside.
func ignored(name string) bool {
	switch name {
	case "runs", "log", "logs", "lightning_logs", "wandb", "mlruns", "tensorboard", "tb_logs", "__pycache__", "nohup.out":
		return true
	}
	switch path.Ext(name) {
	case ".log", ".jsonl":
		return true
	}
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "events.out.tfevents") || passing(name)
}

// look lists the entries of a directory. base has those that were there
// before: a numbered directory that is as it was is not looked into again.
func look(t dirfs.Reader, base map[string]*entry) (map[string]*entry, error) {
	list, err := t.ReadDir(".")
	if err != nil {
		return nil, err
	}
	found := map[string]*entry{}
	var marks []string
	for _, d := range list {
		name := d.Name()
		if strings.HasSuffix(name, markSuffix) && name != markFile {
			marks = append(marks, name)
			continue
		}
		if ignored(name) {
			continue
		}
		e, err := lookAt(t, name, base[name])
		if errors.Is(err, fs.ErrNotExist) {
			continue // gone since the listing
		}
		if err != nil {
			return nil, err
		}
		if e != nil {
			found[name] = e
		}
	}
	for _, name := range marks {
		if e := found[strings.TrimSuffix(name, markSuffix)]; e != nil && !e.dir {
			if err := e.takeMark(t, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
	}
	return found, nameTracked(t, found)
}

// lookAt returns nil for what is no file and has none.
func lookAt(t dirfs.Reader, name string, was *entry) (*entry, error) {
	fi, err := t.Lstat(name)
	if err != nil {
		return nil, err
	}
	e := &entry{name: name, dir: fi.IsDir(), top: dirfs.StateOf(fi)}
	if was != nil && was.dir && e.dir && was.numbered() && was.top.SameBytes(e.top) {
		copied := *was
		copied.named = false
		return &copied, nil
	}
	e.files, err = dirfs.WalkFrom(t, name, fi, func(p string) bool {
		if passing(path.Base(p)) {
			e.scratch = true
			return true
		}
		return false
	}, 1)
	if err != nil || len(e.files) == 0 {
		return nil, err
	}
	slices.SortFunc(e.files, func(a, b dirfs.Found) int { return strings.Compare(a.Path, b.Path) })
	if e.dir && e.has(markFile) {
		err = e.takeMark(t, name+"/"+markFile)
	}
	return e, err
}

// takeMark reads the file that says that e is complete, and makes it part of e.
func (e *entry) takeMark(t dirfs.Reader, name string) error {
	fi, err := t.Lstat(name)
	if err != nil || !fi.Mode().IsRegular() {
		return err
	}
	raw, err := readTold(t, name)
	if err != nil {
		return err
	}
	id := dirfs.StateOf(fi)
	e.mark = &id
	if json.Unmarshal(raw, &e.told) != nil {
		e.told = told{} // complete all the same
	}
	if !e.dir {
		e.files = append(e.files, dirfs.Found{Path: name, Mode: fi.Mode().Perm(), State: id})
	}
	return nil
}

// nameTracked marks the directories that a tracker names.
func nameTracked(t dirfs.Reader, found map[string]*entry) error {
	for tracker := range trackers {
		if e := found[tracker]; e == nil || e.dir {
			continue
		}
		raw, err := readTold(t, tracker)
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
		if e := found[said]; e != nil {
			e.named = true
		}
	}
	return nil
}

func readTold(t dirfs.Reader, name string) ([]byte, error) {
	f, err := t.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxTold))
}

// progressOf is what is known of the step and the samples of an entry: by its
// mark, by the trainer's own file, by its name.
func progressOf(t dirfs.Reader, e *entry) (told, error) {
	if e.mark != nil {
		return e.told, nil
	}
	if e.dir && e.has("trainer_state.json") {
		raw, err := readTold(t, e.name+"/trainer_state.json")
		if err != nil {
			return told{}, err
		}
		var state struct {
			Step *int64 `json:"global_step"`
		}
		if json.Unmarshal(raw, &state) == nil && state.Step != nil {
			return told{Step: state.Step}, nil
		}
	}
	if m := stepName.FindAllStringSubmatch(e.name, -1); m != nil {
		if n, err := strconv.ParseInt(m[len(m)-1][1], 10, 64); err == nil {
			return told{Step: &n}, nil
		}
	}
	return told{}, nil
}
