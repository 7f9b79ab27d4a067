package runtime

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// trainsAlone is a job of one node with two checkpoints, of which the disk cannot read the failing
// ones. Its store is wiped.
func trainsAlone(t *testing.T, failing ...checkpoint.Number) *wiped {
	s, nodes := withCheckpoint(t, "1", "a")
	a := nodes[0]
	s.commit()
	s.fails(a, failing...)
	s.wipe()
	return s
}

func (s *wiped) fails(a *simAgent, failing ...checkpoint.Number) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.host.failing = failing
}

// A disk fails to read the newest checkpoint, and succeeds a moment later. The job goes on from
// that checkpoint.
func TestWipedAndADiskFailsForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := trainsAlone(t, 2)
		time.Sleep(30 * time.Second)
		if x := s.snapshot(); x.Job != nil {
			t.Errorf("it was made again without the newest checkpoint: %+v\n%s", x.Job, s.story())
		}
		if n := strings.Count(s.story(), "cannot be read (permission denied): trying again"); n != 1 {
			t.Errorf("it was said %d times\n%s", n, s.story())
		}
		s.fails(s.agents[0])
		s.goesOn(1, 1, 10*time.Second)
		s.end()
	})
}

// A disk never reads the newest checkpoint again. After the limit the job goes on from the one
// before.
func TestWipedAndADiskFailsForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := trainsAlone(t, 2)
		s.mu.Lock()
		s.acked[s.last] = s.agents[0].host.saved["a"][0] // it is the newest that can be read
		s.mu.Unlock()
		s.until("it goes on from checkpoint 1", 80*time.Second, func(x rendezvous.Snapshot) bool {
			return s.running(0, 1)(x) && x.Job.Adopted == 1
		})
		if line := "claims it without checkpoints that cannot be read"; strings.Count(s.story(), line) != 1 {
			t.Errorf("it was not said\n%s", s.story())
		}
		s.end()
	})
}

// No checkpoint of a lost job can be read. As it had some, it is not made again from scratch.
func TestWipedAndNoCheckpointCanBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := trainsAlone(t, 1, 2)
		time.Sleep(10 * time.Minute)
		if x := s.snapshot(); x.Job != nil {
			t.Errorf("it was made again: %+v\n%s", x.Job, s.story())
		}
		for _, line := range []string{"claims it without checkpoints that cannot be read",
			"no node that claims it can read one"} {
			if n := strings.Count(s.story(), line); n != 1 {
				t.Errorf("%q was said %d times\n%s", line, n, s.story())
			}
		}
		s.fails(s.agents[0])
		s.goesOn(1, 1, 20*time.Second)
		s.end()
	})
}

// The only holder of the newest checkpoint does not answer the node that fetches it, and answers
// all others. The checkpoint is not given up.
func TestAHolderThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFaulty(t, seedOf(2), someFaults())
		s.threeSaves()
		s.at["a"].kill()
		newest := s.snapshot().Head
		delete(s.hosts, "a") // another machine comes, of the same name
		s.up("a")
		s.at["a"].kept.silent.Store(true)
		time.Sleep(20 * time.Second)
		s.at["a"].kept.silent.Store(false)
		s.until("both run", time.Minute, s.running(0, 2))
		if now := s.snapshot().World.Resume; now.Manifest != newest.Manifest {
			t.Errorf("it goes on from %+v, the newest was %+v\n%s", now, newest, s.story())
		}
		s.close()
	})
}
