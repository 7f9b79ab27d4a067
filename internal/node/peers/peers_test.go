package peers

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/internal/scope"
	"github.com/elasticd/elastic/pkg/schema"
)

// Connections report a newer generation once. The agent gets it, even if it was busy at that
// moment.
func TestANewerGenerationIsReportedWhenTheAgentListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var effects scope.Scope
		p := New(&effects, &Place{})
		effects.Go(p.passOn)
		for _, g := range []schema.Generation{2, 4, 3} {
			p.heard(g)
		}
		synctest.Wait() // there is no listener
		var most schema.Generation
		for limit := time.After(time.Second); most < 4; {
			select {
			case s := <-p.Signals():
				most = max(most, s.Answer.Generation)
			case <-limit:
				t.Fatalf("it heard of generation %d, want 4", most)
			}
		}
		effects.End()
		effects.Wait()
	})
}
