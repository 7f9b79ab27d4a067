package checkpoint

import (
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// Surplus says which records of checkpoints go: all but the newest keep, the
// head, and those whose manifest is pinned, which the resume of the newest
// world always is. Pure.
func Surplus(committed []manifest.Head, head manifest.Head, keep int, pinned []manifest.Hash) (drop []manifest.Head) {
	left := slices.SortedFunc(slices.Values(committed), func(a, b manifest.Head) int { return int(b.Number) - int(a.Number) })
	for i, c := range left {
		if i >= keep && !c.Offered && c.Number != head.Number && c.Manifest != head.Manifest && !slices.Contains(pinned, c.Manifest) {
			drop = append(drop, c)
		}
	}
	return drop
}
