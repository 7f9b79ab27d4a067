package integration

import (
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// A worker saves after each step, in the background, so that nearly always a save is being written.
// It is killed at random moments, with its agent or alone, and goes on from the newest whole save:
// the result is that of an undisturbed run. COUNT sets the number of kills, SEED the moments.
func TestSavesInTheBackgroundOutliveKills(t *testing.T) {
	t.Parallel()
	s := newStayers(t)
	s.np = "1"
	s.set("SAVE_EVERY=1", "EXTRA="+strconv.Itoa(8<<20))
	seed, _ := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	r := rand.New(rand.NewPCG(seed, 1))
	generation, resumed := 0, 0
	for range max(3, soak(t)) {
		if s.nodes["a"] == nil {
			s.up("a")
		}
		generation = s.trains(generation, "a")
		if s.training("a").step > 1 {
			resumed++
		}
		s.goesOn(1)
		time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond) // a random moment of a step and of a save
		if r.IntN(2) == 0 {
			s.lose("a")
		} else if err := syscall.Kill(s.training("a").pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if s.nodes["a"] == nil {
		s.up("a")
	}
	s.trains(generation, "a")
	if resumed == 0 {
		t.Error("no save counted: each time training began anew")
	}
	s.finishIn(30) // each of them is saved
}
