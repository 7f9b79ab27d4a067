package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// state is all that another world of any size needs to continue.
type state struct {
	Identity string    `json:"identity"`
	Step     int       `json:"step"`
	Samples  int64     `json:"samples"`  // the position: training has used all samples before it
	Checksum float64   `json:"checksum"` // of the samples that were used
	Weights  []float64 `json:"weights"`
	Seed     uint64    `json:"seed"`
	Dataset  int       `json:"dataset_size"`
	History  []stretch `json:"history"`
}

// stretch describes the part of one generation.
type stretch struct {
	Generation int `json:"generation"`
	World      int `json:"world"`
	Steps      int `json:"steps"`
}

const (
	stateFile  = "state.json"
	commitFile = ".elastic-commit" // marks a complete save, for elastic and for load
	keepSaves  = 3
)

func savePath(dir string, step int) string { return filepath.Join(dir, fmt.Sprintf("step-%d", step)) }

// save writes a directory step-<n>. It writes the commit file last, so the files of a worker that
// was killed before do not count as a save.
func save(dir string, s *state) error {
	path := savePath(dir, s.Step)
	for _, do := range []func() error{
		func() error { return os.RemoveAll(path) }, // incomplete, or of steps that were rolled back
		func() error { return os.MkdirAll(path, 0o700) },
		func() error { return writeJSON(path, stateFile, s) },
		func() error { return syncDir(dir) },
		func() error {
			return writeJSON(path, commitFile, s.mark())
		},
		func() error { return retain(dir, s.Step) },
	} {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// mark returns the content of the commit file. The manifest of the checkpoint has it too.
func (s *state) mark() map[string]any {
	m := map[string]any{"step": s.Step, "samples": s.Samples}
	if n := int64(s.Dataset); n > 0 {
		m["epoch"], m["consumed"], m["seed"], m["dataset_size"] = s.Samples/n, s.Samples%n, s.Seed, n
	}
	return m
}

// retain removes old saves. Saves of later steps belong to steps that were rolled back. They stay
// and do not count, so they cannot displace the current save.
func retain(dir string, step int) error {
	whole := 0
	steps, err := saves(dir)
	for _, n := range steps {
		if n > step {
			continue
		}
		if _, torn := os.Stat(filepath.Join(savePath(dir, n), commitFile)); torn != nil ||
			whole == keepSaves {
			err = errors.Join(err, os.RemoveAll(savePath(dir, n)))
		} else {
			whole++
		}
	}
	return err
}

// saves lists the steps in dir, complete or not, newest first.
func saves(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var steps []int
	for _, e := range entries {
		var n int
		if fmt.Sscanf(e.Name(), "step-%d", &n); e.Name() == filepath.Base(savePath(dir, n)) {
			steps = append(steps, n)
		}
	}
	slices.Sort(steps)
	slices.Reverse(steps)
	return steps, err
}

// newest reads the newest complete save in dir, nil if there is none.
func newest(dir string) (*state, error) {
	steps, err := saves(dir)
	for _, n := range steps {
		if s, torn := load(savePath(dir, n)); torn == nil {
			return s, nil
		}
	}
	return nil, err
}

// load reads a save. It fails if the save is not complete.
func load(path string) (*state, error) {
	if _, err := os.Stat(filepath.Join(path, commitFile)); err != nil {
		return nil, fmt.Errorf("not a whole save: %w", err)
	}
	data, err := os.ReadFile(filepath.Join(path, stateFile))
	if err != nil {
		return nil, err
	}
	s := &state{}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// writeJSON writes a file atomically.
func writeJSON(dir, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, name)
	f, err := os.Create(path + ".tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
