package plants_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// simulated are bugs that once lost saves. The simulation finds them without their own tests.
var simulated = []struct {
	bug, test string
	seed      int    // the first story to play; this one or a later one finds the bug
	says      string // a part of the error of the story that fails
}{
	{"the last checkpoint with two copies is dropped", saved, 270,
		"no checkpoint of the record is readable"},
	{"a node that is not registered gets no copy", saved, 11,
		"has no copy of"},
	{"events are not trimmed within one generation", saved, 135,
		"events are in the store"},
	{"files that an ended generation left stay in the directory", saved, 2,
		"and its directory has step"},
	{"a node that fails twice in a row stays in the world", bad, 1, "the healthy nodes"},
	{"a flapping node is never put into quarantine", bad, 1, "the healthy nodes lost"},
}

const (
	saved = "TestSavesOutliveEveryFault"
	bad   = "TestBadNodes"
	// simulatedSeeds is within how many stories each bug must be found.
	simulatedSeeds = 200
)

// TestPlantsInTheSimulation plants the first COUNT bugs, one if COUNT is not set, and plays stories
// until one fails.
func TestPlantsInTheSimulation(t *testing.T) {
	count := 1
	if n, err := strconv.Atoi(os.Getenv("COUNT")); err == nil {
		count = n
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range simulated {
		at := slices.IndexFunc(plants, func(p plant) bool { return p.bug == s.bug })
		if at < 0 {
			t.Errorf("%s is not planted", s.bug)
			continue
		}
		if i >= count {
			continue
		}
		t.Run(strings.ReplaceAll(s.bug, " ", "-"), func(t *testing.T) {
			p := plants[at]
			run := testRun{pkg: simulation, test: s.test, seed: s.seed, seeds: simulatedSeeds}
			changed, err := p.plant(root)
			if err != nil {
				t.Fatal(err)
			}
			out, err := goTest(t, root, map[string][]byte{p.file: changed}, run)
			failed, story, _ := strings.Cut(out, "--- FAIL: "+run.test+"/seed=")
			switch {
			case err == nil || failed == out:
				t.Errorf("%s survives %d stories: the simulation lacks a fault or a check\n%s", s.bug,
					run.seeds, out)
			case !strings.Contains(story, s.says):
				t.Errorf("%s: a story fails, and not by this: %s\n%s", s.bug, s.says, out)
			}
		})
	}
}
