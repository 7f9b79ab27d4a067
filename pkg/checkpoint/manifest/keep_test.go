package manifest_test

import (
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// A checkpoint of an earlier job has a place among the captures of that job. A copy of this job that was
// acknowledged and is not yet in the record stays beside it.
func TestOfferedCheckpointsOutdateNoCopies(t *testing.T) {
	earlier, copied := manifest.Hash{1}, manifest.Hash{2}
	held := map[manifest.Hash]manifest.Position{earlier: {Generation: 1, Sequence: 22},
		copied: {Generation: 1, Sequence: 6}}
	for offered, garbage := range map[bool]int{true: 0, false: 1} {
		heads := []manifest.Head{{Number: 1, Generation: 1, Manifest: earlier, Offered: offered}}
		k := manifest.Keep(manifest.OnDisk{Held: held, Heads: heads}, heads, 1, nil)
		if got := k.Garbage(held); len(got) != garbage {
			t.Errorf("offered %v: garbage %v", offered, got)
		}
	}
}
