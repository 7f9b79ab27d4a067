package capture

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/capture/table"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

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

// Picture is a save that was found, and the state of the directory at that time.
type Picture struct {
	Save    chunkstore.Save
	Row     table.Row
	seen    map[string]*entry // becomes base when the save is taken
	listed  map[string]*entry
	entries []*entry // the entries in the save
	boot    string   // of the machine
}

// picture makes the save from the decision.
func (c *Watcher) picture(d table.Decision, now time.Time) (*Picture, error) {
	c.sequence++
	p := &Picture{Row: d.Row, seen: maps.Clone(c.base), listed: c.last, boot: c.dir.Boot,
		Save: chunkstore.Save{Stamp: c.stamp, Sequence: c.sequence, Time: now, Dir: c.tree,
			Directories: []string{}}}
	for _, name := range d.Older {
		p.seen[name] = c.last[name]
	}
	s := &p.Save
	for _, name := range d.Take {
		e := c.last[name]
		p.seen[name] = e
		p.entries = append(p.entries, e)
		if e.dir {
			s.Directories = append(s.Directories, e.name)
		}
		for _, f := range e.files {
			f.Unsure = e.same(c.base[e.name])
			s.Files = append(s.Files, f)
		}
		if e.named {
			s.Files = append(s.Files, e.tracker)
		}
	}
	maps.DeleteFunc(p.seen, func(name string, _ *entry) bool { return c.last[name] == nil })
	slices.SortFunc(s.Files, func(a, b dirfs.Found) int { return strings.Compare(a.Path, b.Path) })
	return p, c.describe(s, p.entries)
}

// describe sets the path from which a worker resumes, the step, and the samples.
func (c *Watcher) describe(s *chunkstore.Save, entries []*entry) error {
	s.Entry = entries[0].name
	for _, e := range entries {
		s.Entry = manifest.CommonPath(s.Entry, e.name)
		t, err := progressOf(c.tree, e)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if t.Step != nil && (s.Step == nil || *t.Step > *s.Step) {
			s.Step, s.Samples, s.Cursor = t.Step, t.Samples, t.cursor()
		}
		if s.Samples == nil {
			s.Samples = t.Samples
		}
	}
	return nil
}
