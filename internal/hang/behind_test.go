package hang

import (
	"testing"

	"github.com/elasticd/elastic/pkg/membership"
)

// A rank that is alone is not behind others.
func TestBehindAs(t *testing.T) {
	t.Parallel()
	for want, w := range map[string]World{
		"makes no progress": {Members: make([]membership.Ref, 1), Slots: 1},
		"is behind":         {Members: make([]membership.Ref, 1), Slots: 2},
	} {
		if got := w.BehindAs(); got != want {
			t.Errorf("%d nodes of %d: %q, want %q", len(w.Members), w.Slots, got, want)
		}
	}
}
