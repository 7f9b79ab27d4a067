package integration

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/store"
)

// Ten thousand nodes start at the same time. Their first world is proposed within ten seconds of
// simulated time, on a server that is as fast as a measured one. NODES sets another number of
// nodes; the time is then proportional. No transaction is larger than etcd allows.
func TestLargeJobIsPlannedInTime(t *testing.T) {
	n := 1000
	if v, err := strconv.Atoi(os.Getenv("NODES")); err == nil {
		n = v
	}
	synctest.Test(t, func(t *testing.T) {
		h := newFleetInMemory(t, n)
		h.job.Limits = rendezvous.Limits{Min: 1, Max: n}
		h.job.Rules.LastCall = rendezvous.Seconds(time.Minute)
		began := time.Now()
		for i := range n {
			h.start(fmt.Sprintf("node%05d", i))
		}
		until(t, "a world is proposed", func() error {
			r, err := h.look.Get(t.Context(), h.job.Name.World(), "")
			if err == nil && r.One() == nil {
				err = errors.New("there is none")
			}
			return err
		})
		took := h.proposed(1).Sub(began)
		s, err := rendezvous.Read(t.Context(), h.look, h.job.Name)
		if err != nil || s.World.Count != n {
			t.Fatalf("the world has %d of %d nodes: %v", s.World.Count, n, err)
		}
		bytes, operations := h.server.largest()
		t.Logf("%d nodes: proposed after %s; at most %d bytes and %d operations in a transaction",
			n, took.Round(time.Millisecond), bytes, operations)
		if most := proposedWithin * time.Duration(n) / 10_000; took > most {
			t.Errorf("the world of %d nodes was proposed after %s; %s are allowed", n, took, most)
		}
		if bytes > mostBytes || operations > store.MaxOps {
			t.Errorf("%d nodes: etcd refuses a transaction of %d bytes or %d operations", n, bytes, operations)
		}
	})
}
