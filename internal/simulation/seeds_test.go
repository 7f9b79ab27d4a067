package simulation

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
)

// eachSeed plays the stories of the seeds from 1 to most. COUNT sets another number of seeds, and
// SEED another first one. SEED without COUNT plays one story and prints it.
func eachSeed(t *testing.T, most uint64, play func(*testing.T, uint64) *sim) {
	from, count := uint64(1), seeds(most)
	one := false
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // a story leaves much behind, and little at a time
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 30))
	if n, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64); err == nil {
		from, count, one = n, 1, true
	}
	if n, err := strconv.ParseUint(os.Getenv("COUNT"), 10, 64); err == nil {
		count, one = n, false
	}
	for seed := from; seed < from+count; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, seed)
			synctest.Test(t, func(t *testing.T) {
				if s := play(t, seed); one {
					t.Log("\n" + s.story())
				}
			})
		})
	}
}
