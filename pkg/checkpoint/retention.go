package checkpoint

import (
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// Retention says how many checkpoints stay.
type Retention struct {
	Keep     int             // the newest
	Replicas int             // copies that each is to have
	Pinned   []manifest.Hash // what the newest world resumes from
}

// Surplus says which records of checkpoints go. These stay: the newest Keep, the head, what is
// pinned, and the newest one with enough copies until a newer one has as many. So at most
// Keep + 2 stay, and one more for each that is pinned.
func (r Retention) Surplus(committed []manifest.Head, head manifest.Head) (drop []manifest.Head) {
	left := slices.SortedFunc(slices.Values(committed),
		func(a, b manifest.Head) int { return int(b.Number) - int(a.Number) })
	enough := 0
	for _, c := range left {
		enough = max(enough, min(c.Copies, r.Replicas))
	}
	safe := slices.IndexFunc(left, func(c manifest.Head) bool { return c.Copies >= enough })
	for i, c := range left {
		if i >= r.Keep && i != safe && !c.Offered && c.Number != head.Number && c.Manifest != head.Manifest &&
			!slices.Contains(r.Pinned, c.Manifest) {
			drop = append(drop, c)
		}
	}
	return drop
}
