package runtime

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
)

// A seed is one story, on any number of processors: all but few. COUNT sets how many seeds.
func TestReplay(t *testing.T) {
	count, differ := seeds(8), uint64(0)
	if n, err := strconv.ParseUint(os.Getenv("COUNT"), 10, 64); err == nil {
		count = n
	}
	for seed := uint64(1); seed <= count; seed++ {
		var stories []string
		for _, procs := range []int{1, 4} {
			was := runtime.GOMAXPROCS(procs)
			cryptotest.SetGlobalRandom(t, seed)
			synctest.Test(t, func(t *testing.T) { stories = append(stories, nameless(wipes(t, seed).story())) })
			runtime.GOMAXPROCS(was)
		}
		if stories[0] != stories[1] {
			differ++
			t.Logf("seed %d differs:\n%s", seed, firstDifference(stories[0], stories[1]))
		}
	}
	if differ > count/4+1 {
		t.Errorf("%d of %d seeds differ", differ, count)
	}
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return strings.Join(x[max(0, i-5):i+3], "\n") + "\n---\n" + strings.Join(y[max(0, i-5):i+3], "\n")
		}
	}
	return "one is longer"
}
