package saves

import (
	"bytes"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// trainer is a framework whose trainer goes on from the number of a step, as a file of its save shows.
type trainer struct{ name, integration string }

// says reports whether the begin of a file of a save has a text. file is its place among the files.
type says func(file int, text string) bool

// trainerOf returns the trainer that wrote a save; false: none is known, or the save says which samples
// were taken, as those of the helper do.
func trainerOf(m *checkpoint.Manifest, begins says) (trainer, bool) {
	if m.Cursor != nil {
		return trainer{}, false
	}
	for i, f := range m.Files {
		switch name := path.Base(f.Path); {
		case name == "trainer_state.json":
			return trainer{"Transformers' Trainer", "elastic.hf.attach(trainer)"}, true
		case strings.HasPrefix(name, "random_states_") && strings.HasSuffix(name, ".pkl"):
			return trainer{"accelerate", "elastic.accelerate.prepare(…)"}, true
		case strings.HasSuffix(name, ".ckpt") && begins(i, "pytorch-lightning_version"):
			return trainer{"Lightning", "elastic.lightning.fit(…)"}, true
		}
	}
	return trainer{}, false
}

// Counted says what is wrong where a trainer that counts steps goes on in a world of another size, or
// without the random numbers of some ranks; "": nothing is.
func (s *Saves) Counted(w rendezvous.World) string {
	s.mu.Lock()
	chunks := s.chunks
	s.mu.Unlock()
	if w.Resume == nil || chunks == nil {
		return ""
	}
	m, err := chunks.Manifest(w.Resume.Manifest)
	if err != nil { // it is not on this disk
		return ""
	}
	return counted(m, w.Size(), func(file int, text string) bool {
		all := m.Files[file].Chunks
		if len(all) == 0 {
			return false
		}
		c, err := chunks.OpenChunk(all[0])
		if err != nil {
			return false
		}
		defer c.Close()
		begin, err := io.ReadAll(c)
		return err == nil && bytes.Contains(begin, []byte(text))
	})
}

// random matches the files in which trainers keep the random numbers of one rank.
var random = regexp.MustCompile(`^(rng_state_\d+\.pth|random_states_\d+\.pkl)$`)

// counted is Counted for a save and the size of a world.
func counted(m *checkpoint.Manifest, size int, begins says) string {
	if t, known := trainerOf(m, begins); known && m.WorldSize != size {
		return fmt.Sprintf("%s counts steps: its save is of world size %d, this is %d, so samples are taken "+
			"twice or not at all; call %s, or keep the size", t.name, m.WorldSize, size, t.integration)
	}
	ranks := 0
	for _, f := range m.Files {
		if random.MatchString(path.Base(f.Path)) {
			ranks++
		}
	}
	if ranks == 0 || ranks >= m.WorldSize {
		return ""
	}
	return fmt.Sprintf("the save has the random numbers of %d of %d ranks, so the others go on with new ones; "+
		"run with --save-from=all to save them all", ranks, m.WorldSize)
}
