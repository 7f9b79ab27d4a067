package checkpoint

import (
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// Retention has the rules for which checkpoints stay.
type Retention struct {
	Keep     int             // how many of the newest
	Replicas int             // wanted copies of each
	Pinned   []manifest.Hash // what the newest world started from
}

// Surplus returns the records to remove. It keeps the newest Keep, the head and the pinned ones. It
// also keeps the newest one with the most copies, where more copies than Replicas count as Replicas. So
// at most Keep + 2 and the pinned ones stay.
func (r Retention) Surplus(committed []manifest.Head, head manifest.Head) (drop []manifest.Head) {
	left := slices.SortedFunc(slices.Values(committed),
		func(a, b manifest.Head) int { return int(b.Number) - int(a.Number) })
	enough := 0
	for _, c := range left {
		enough = max(enough, min(c.Copies, r.Replicas))
	}
	safe := slices.IndexFunc(left, func(c manifest.Head) bool { return c.Copies >= enough })
	for i, c := range left {
		if i >= r.Keep && i != safe && c.Number != head.Number && c.Manifest != head.Manifest &&
			!slices.Contains(r.Pinned, c.Manifest) {
			drop = append(drop, c)
		}
	}
	return drop
}
