package simulation

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// The store stops answering between the read that shows no such job and the request that makes the
// job. It counts as a store that does not answer.
func TestNotMadeWithinTheConnectTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "1", 1)
		a := s.makeAgent("a")
		a.cfg.ConnectTimeout = 20 * time.Second
		a.client.Fates(func(op memory.Op) memory.Fate {
			if op.Kind == memory.Txn {
				a.client.Cut(true)
			}
			return memory.Fate{}
		})
		s.run(a)
		select {
		case <-a.done:
		case <-time.After(2 * time.Minute):
			t.Fatalf("it waits on\n%s", s.story())
		}
		if a.result.Status != 124 || !problem.Is(a.result.Err, problem.Server) {
			t.Errorf("it ended with %d, %v", a.result.Status, a.result.Err)
		}
	})
}
