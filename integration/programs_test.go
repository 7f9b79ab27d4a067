package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// programs are those of testdata/programs.py.
var programs = []string{"epochs", "adam", "tokens", "accumulation", "amp", "loader", "gan", "augmentation",
	"zero_last", "rank0", "muon", "evaluates", "average", "unfreeze"}

// Programs as users write them end with the parameters, rates and validations of an undisturbed
// run, on every rank, although nodes are killed, leave, come and are scaled at random moments: in
// place, and with workers that are started again. COUNT is the number of changes of each program
// (without it one program is played in place), PROGRAMS names some of them, and SEED the first story.
func TestProgramsOfUsersEqualTheUndisturbedRun(t *testing.T) {
	t.Parallel()
	names, ways := programs, []string{"place", "restart"}
	if some := os.Getenv("PROGRAMS"); some != "" {
		names = strings.Split(some, ",")
	} else if os.Getenv("COUNT") == "" {
		names, ways = []string{"evaluates"}, ways[:1] // TestJobIsRestarted has "epochs"
	}
	seed, _ := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	for i, name := range names {
		for j, way := range ways {
			t.Run(name+"/"+way, func(t *testing.T) {
				if len(names)*len(ways) > 1 { // one alone would wait for all other tests
					t.Parallel()
				}
				s := newStayers(t)
				s.script = filepath.Join(filepath.Dir(s.script), "programs.py")
				s.arguments = []string{name, way}
				s.disturbed(rand.New(rand.NewPCG(seed, uint64(2*i+j))))
			})
		}
	}
}

// disturbed runs a program through random changes, and compares its end with that of an undisturbed run.
func (s *stayers) disturbed(r *rand.Rand) {
	changes := max(2, soak(s.t))
	for _, n := range []string{"a", "b", "c"} {
		s.up(n)
	}
	names := []string{"a", "b", "c"}
	s.trains(0, names...)
	for round := range changes {
		time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond) // a random moment of the loop
		at := r.IntN(3)
		if r.IntN(3) == 0 {
			_ = s.nodes[names[at]].kill(syscall.SIGTERM) // it leaves
		} else {
			_ = s.nodes[names[at]].kill(syscall.SIGKILL)
		}
		<-s.nodes[names[at]].done
		delete(s.nodes, names[at])
		names[at] = fmt.Sprintf("n%d", round)
		s.up(names[at])
		within(s.t, 4*limit, "the new node trains", func() error {
			if s.training(names[at]).generation == 0 {
				return errors.New("it does not")
			}
			return nil
		})
	}
	s.endsAlike()
}

// endsAlike lets a program end some epochs later, as undisturbed training ends.
func (s *stayers) endsAlike() {
	s.t.Helper()
	const stepsOfAnEpoch = 9
	target := strconv.Itoa(int(s.step())/stepsOfAnEpoch + 12)
	if err := os.WriteFile(s.path("target"), []byte(target), 0o600); err != nil {
		s.t.Fatal(err)
	}
	want := s.undisturbed()
	for n, x := range s.nodes {
		s.ends(x, 0)
		if got := ended.FindString(x.stdout()); got != want {
			s.t.Errorf("%s ends with %q, and undisturbed training with %q", n, got, want)
		}
	}
}
