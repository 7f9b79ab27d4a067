package plants_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// simulated are bugs that lost saves once, and that the simulation finds without their own tests.
var simulated = []struct {
	bug, test string
	seed      int // the first story that is played; it found the bug when this was written
}{
	{"a directory with a digit in its name is a save as a whole", saved, 11},
	{"a save is taken without what the last one wrote", saved, 6},
	{"the last checkpoint with two copies is dropped", saved, 297},
	{"section 10: a store that is set back is believed", saved, 58},
	{"section 10: agents that are alive do not notice a store that is set back", "TestWipes", 6},
	{"a node that is not registered gets no copy", saved, 11},
	{"events without bound within one generation", saved, 135},
	{"section 10: a copy on a spare is not waited for", saved, 8},
	{"section 10: spares are not written down", saved, 8},
	{"section 10: the number of a generation is noted after it was asked for", saved, 9},
	{"what a dead generation left stays", saved, 8},
	{"the agent's own state is a save", saved, 2},
	{"a save that waits is not told", saved, 21},
}

const (
	saved = "TestSavesOutliveEveryFault"
	// simulatedSeeds is within how many stories each of them is found.
	simulatedSeeds = 200
)

// TestPlantsInTheSimulation plants the first COUNT of them, one without COUNT, and plays stories
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
			run := testRun{pkg: runtime, test: s.test, seed: s.seed, seeds: simulatedSeeds}
			changed, err := p.plant(root)
			if err != nil {
				t.Fatal(err)
			}
			out, err := goTest(t, root, map[string][]byte{p.file: changed}, run)
			if err == nil || !strings.Contains(out, "--- FAIL: "+run.test+"/seed=") {
				t.Errorf("%s survives %d stories: the simulation lacks a fault or a check\n%s", s.bug, run.seeds, out)
			}
		})
	}
}
