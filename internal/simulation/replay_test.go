package simulation

import (
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
)

// A seed gives the same story on any number of processors. COUNT sets the number of seeds.
func TestReplay(t *testing.T) {
	first, count := uint64(1), seeds(4)
	if n, err := strconv.ParseUint(os.Getenv("COUNT"), 10, 64); err == nil {
		count = n
	}
	if n, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64); err == nil {
		first = n
	}
	for seed := first; seed < first+count; seed++ {
		replays(t, seed, wipes)
		replays(t, seed, savesOutliveEveryFault)
	}
}

// replays plays the story of a seed on one processor, and on more.
func replays(t *testing.T, seed uint64, play func(*testing.T, uint64) *sim) {
	// two files made at the same moment may swap numbers
	temporary := regexp.MustCompile(`tmp/\d+`)
	var first string
	for _, procs := range []int{1, 2, 4} {
		was := runtime.GOMAXPROCS(procs)
		cryptotest.SetGlobalRandom(t, seed)
		var story string
		synctest.Test(t, func(t *testing.T) { story = nameless(play(t, seed).story()) })
		story = temporary.ReplaceAllString(story, "tmp/*")
		runtime.GOMAXPROCS(was)
		if first == "" {
			first = story
		}
		if story != first {
			t.Errorf("seed %d differs on %d processors:\n%s", seed, procs, firstDifference(first, story))
			return
		}
	}
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return strings.Join(x[max(0, i-12):i+12], "\n") + "\n---\n" +
				strings.Join(y[max(0, i-12):i+12], "\n")
		}
	}
	return "one is longer"
}
