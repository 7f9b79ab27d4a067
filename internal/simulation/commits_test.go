package simulation

import (
	"slices"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// lateCommits checks G2 in the history: no commit is of an older generation than the newest
// proposed before it. The store must not have lost data.
func (s *sim) lateCommits() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var fence schema.Generation
	var newest checkpoint.Number
	for _, c := range s.etcd.History(0) {
		// A proposal with a rollback gives an older checkpoint a new number.
		proposed := slices.ContainsFunc(c.Events,
			func(e store.Event) bool { return e.Key == s.job.Name.Fence() })
		for _, e := range c.Events {
			switch {
			case e.Deleted:
			case e.Key == s.job.Name.Fence():
				_, g, err := schema.ParseFence(e.Entry.Value)
				if err != nil {
					s.t.Fatal(err)
				}
				fence = g
			case e.Key == s.job.Name.Head():
				h, err := checkpoint.DecodeHead(&e.Entry)
				if err != nil {
					s.t.Fatal(err)
				}
				if h.Number > newest && !proposed && h.Generation < fence {
					s.wrongf("G2: checkpoint %d of generation %d is committed after generation %d was "+
						"proposed", h.Number,
						h.Generation, fence)
				}
				newest = h.Number
			}
		}
	}
}
