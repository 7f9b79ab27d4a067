package peers

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/schema"
)

// A connection says once that there is a newer generation. The agent is told, however busy it is in
// that moment.
func TestANewerGenerationIsToldWhenTheAgentListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var effects sync.WaitGroup
		p := New(ctx, &effects, &Place{})
		effects.Go(p.passOn)
		for _, g := range []schema.Generation{2, 4, 3} {
			p.heard(g)
		}
		synctest.Wait() // nobody listens
		var most schema.Generation
		for limit := time.After(time.Second); most < 4; {
			select {
			case s := <-p.Signals():
				most = max(most, s.Generation)
			case <-limit:
				t.Fatalf("it was told of generation %d, want 4", most)
			}
		}
		cancel()
		effects.Wait()
	})
}
