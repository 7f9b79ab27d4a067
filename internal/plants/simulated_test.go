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
var simulated = []string{
	"a directory with a digit in its name is a save as a whole",
	"a save is taken without what the last one wrote",
	"the last checkpoint with two copies is dropped",
}

// simulatedSeeds is within how many stories each of them is found.
const simulatedSeeds = 200

// TestPlantsInTheSimulation plants the first COUNT of them, one if nobody says how many, and plays stories
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
	for i, bug := range simulated {
		at := slices.IndexFunc(plants, func(p plant) bool { return p.bug == bug })
		if at < 0 {
			t.Errorf("%s is not planted", bug)
			continue
		}
		if i >= count {
			continue
		}
		t.Run(strings.ReplaceAll(bug, " ", "-"), func(t *testing.T) {
			p := plants[at]
			run := testRun{pkg: runtime, test: "TestSavesOutliveFaults", seeds: simulatedSeeds}
			changed, err := p.plant(root)
			if err != nil {
				t.Fatal(err)
			}
			out, err := goTest(t, root, map[string][]byte{p.file: changed}, run)
			if err == nil || !strings.Contains(out, "--- FAIL: "+run.test+"/seed=") {
				t.Errorf("%s survives %d stories: the simulation lacks a fault or a check\n%s", bug, run.seeds, out)
			}
		})
	}
}
