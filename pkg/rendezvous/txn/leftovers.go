package txn

import (
	"context"
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/store"
)

// RemoveLeftovers removes keys of nodes that are gone: doing/ at once, held/ when retention
// has removed all checkpoints that it names. A node that registers in the meantime keeps
// its keys. The next call removes the keys that this one did not.
func (r Requests) RemoveLeftovers(ctx context.Context, s *rendezvous.Snapshot) {
	job := r.Job
	gone := func(node string) bool { return s.Node(node) == nil }
	rm := func(node, key string, rev int64) {
		_, _ = r.Store.Txn(ctx, store.Txn{
			If:   []store.Guard{store.Absent(job.Node(node)), store.Unchanged(key, rev)},
			Then: []store.Write{store.Delete(key)}})
	}
	for _, d := range s.Doing {
		if gone(d.Node) {
			rm(d.Node, job.Doing(d.Node), d.Rev)
		}
	}
	kept := func(n checkpoint.Number) bool {
		return n == s.Head.Number || slices.ContainsFunc(s.History,
			func(h checkpoint.Head) bool { return h.Number == n })
	}
	for node, held := range s.Held {
		if gone(node) && !slices.ContainsFunc(held.Numbers, kept) {
			rm(node, job.Held(node), held.Rev)
		}
	}
}
