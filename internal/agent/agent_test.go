package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

func TestTwoJoinOneIsKilledAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "2", 1)
		s.start("a")
		b := s.start("b")
		s.until("generation 1 runs", 5*time.Second, s.running(1, 2))
		b.kill()
		s.until("the survivor waits", 2*time.Second, func(x rendezvous.Snapshot) bool { return x.World.Phase == rendezvous.Waiting })
		s.start("b")
		s.until("generation 2 runs", 5*time.Second, s.running(2, 2))
		s.finish()
		t.Log("\n" + s.story())
	})
}
