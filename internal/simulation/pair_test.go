package simulation

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// twoTrain calls disturb while two nodes train. It expects both to train in the same generation
// half a minute later, without a suspicion.
func twoTrain(t *testing.T, seed uint64, disturb func(s *sim, b *simAgent)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "1:2", seed)
		b := s.form("a", "b")[1]
		time.Sleep(20*time.Second + time.Duration(seed)*77*time.Millisecond)
		disturb(s, b)
		time.Sleep(30 * time.Second)
		if x := s.snapshot(); !s.running(1, 2)(x) || len(x.Suspects) > 0 {
			t.Errorf("generation %d is %s, in doubt: %v\n%s",
				x.World.Generation, x.World.Phase, x.Suspects, s.story())
		}
		s.finish()
	})
}

// separate cuts two nodes from each other, or connects them again.
func (s *sim) separate(apart bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.apart = nil; apart {
		s.apart = func(a, b string) bool { return a != b }
	}
}

// One of two agents is stopped until its silence is a sign, and continues before the time for its
// answer has passed.
func TestAPauseOfOneOfTwoIsNoLoss(t *testing.T) {
	for seed := range uint64(13) {
		for _, pause := range []time.Duration{500 * time.Millisecond, 1100 * time.Millisecond,
			1700 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s/%d", pause, seed), func(t *testing.T) {
				twoTrain(t, seed, func(_ *sim, b *simAgent) {
					b.freeze()
					time.Sleep(pause)
					b.thaw()
				})
			})
		}
	}
}

// Two nodes do not reach each other while the store is stopped for less than their leases. Neither
// takes the other for gone because its answer comes late.
func TestACutOfTwoAndASlowStoreAreNoLoss(t *testing.T) {
	for _, span := range []time.Duration{300 * time.Millisecond, 900 * time.Millisecond,
		1500 * time.Millisecond} {
		for at := 800 * time.Millisecond; at < 2500*time.Millisecond; at += 100 * time.Millisecond {
			t.Run(fmt.Sprintf("%s after %s", span, at), func(t *testing.T) {
				twoTrain(t, 1, func(s *sim, _ *simAgent) {
					s.separate(true)
					time.Sleep(at)
					s.etcd.Freeze()
					time.Sleep(span)
					s.etcd.Thaw()
					time.Sleep(6 * time.Second)
					s.separate(false)
				})
			})
		}
	}
}

// Two nodes do not reach each other, and one of them has a silent watch. So it does not see the
// suspicion and does not answer. It renews its lease, and is not lost.
func TestADeafWatchInACutOfTwoIsNoLoss(t *testing.T) {
	for seed := range uint64(13) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			twoTrain(t, seed, func(s *sim, b *simAgent) {
				b.client.Deaf(true)
				time.Sleep(300 * time.Millisecond)
				s.separate(true)
				time.Sleep(8 * time.Second)
				b.client.Deaf(false)
				s.separate(false)
			})
		})
	}
}

// Two nodes are cut from each other, and then one of them stops. It is lost when its lease ends,
// because it had answered the suspicion before.
func TestOneOfTwoThatStandsStillInACutIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "1:2", 1)
		b := s.form("a", "b")[1]
		time.Sleep(20 * time.Second)
		s.separate(true)
		s.until("both suspicions are answered", 3*time.Second, func(x rendezvous.Snapshot) bool {
			return len(x.Suspects) == 2 && x.Suspects[0].Answered && x.Suspects[1].Answered
		})
		time.Sleep(6 * time.Second)
		b.freeze()
		s.until("a goes on alone", 8*time.Second, s.running(2, 1))
		b.thaw()
		s.separate(false)
		s.until("both train", 20*time.Second, s.running(0, 2))
		s.finish()
	})
}
