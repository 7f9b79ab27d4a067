package rendezvous_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
)

// many is a job of n nodes and a spare for each hundred of them.
func many(n int) (*jobSnapshot, []string) {
	names := make([]string, n+n/100)
	for i := range names {
		names[i] = fmt.Sprintf("n%05d", i)
	}
	return aJob(n).here(names...), names[:n]
}

// refuses makes the host of node refuse dials, and a registered node suspect it.
func refuses(node string) fact {
	return func(x *situation) {
		by := ref("n00001")
		x.Suspects = append(x.Suspects, membership.Suspicion{Node: node, By: by.Node,
			Incarnation: ref(node).Incarnation, Watcher: by.Incarnation, Sign: membership.ConnectionClosed})
		x.answer(node, membership.Refused)
	}
}

// BenchmarkPlan measures what a keeper computes at each change: which nodes are alive, since when,
// and the next step.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		for _, c := range []struct {
			name   string
			moment func() *situation
		}{
			{"first", func() *situation { s, _ := many(n); return given(s, commit(3, "n00001")) }},
			{"calm", func() *situation {
				s, names := many(n)
				return given(s.world(rendezvous.Running, names...))
			}},
			{"lost", func() *situation {
				s, names := many(n)
				return given(s.world(rendezvous.Running, names...), refuses("n00000"), refuses("n00050"),
					commit(3, "n00001"))
			}},
			{"barrier", func() *situation {
				s, names := many(n)
				x := given(s.world(rendezvous.Forming, names...), since(31*time.Second),
					ready(names[:n/2]...))
				for _, name := range names[n/2:] {
					doing(name, "fetching")(x)
				}
				return x
			}},
			{"late", func() *situation {
				s, names := many(n)
				return given(s.world(rendezvous.Forming, names...), since(31*time.Second),
					ready(names[:n/2]...))
			}},
			{"power", func() *situation { // half of a range loses its power
				s, names := many(n)
				s.Job.Limits = rendezvous.Limits{Min: 1, Max: n}
				x := given(s.world(rendezvous.Running, names...))
				for _, name := range names[n/2:] {
					refuses(name)(x)
				}
				return x
			}},
			{"again", func() *situation { // all agents of a job that waited are back
				s, names := many(n)
				x := given(s.world(rendezvous.Waiting, names...),
					holding(rendezvous.NodesMissing, rendezvous.CauseNodeLost))
				for i := range x.Nodes {
					x.Nodes[i].Incarnation = membership.Incarnation("new-" + x.Nodes[i].Node)
				}
				return x
			}},
		} {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				x := c.moment()
				b.ReportAllocs()
				for b.Loop() {
					v := x.view()
					x.m.Update(&x.Snapshot, v, noon)
					plan.Next(plan.Facts{Snapshot: &x.Snapshot, View: v, Observed: x.m,
						Timeouts: plan.DefaultTimeouts, Now: noon})
				}
			})
		}
	}
}
