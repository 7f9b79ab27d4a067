package detection

import (
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
)

// The doubts are explained by one node until others accuse each other that were all in doubt before.
// From then on silence counts for nothing, for a window.
func TestANewDoubtMakesACrowd(t *testing.T) {
	now := time.Now()
	d := New(verdict.DefaultTimeouts(0, 0))
	var members []membership.Ref
	var nodes []membership.Node
	for _, name := range []string{"a", "b", "c"} {
		r := membership.Ref{Node: name, Incarnation: membership.Incarnation(name)}
		members, nodes = append(members, r), append(nodes, membership.Node{Ref: r})
	}
	var suspects []membership.Suspicion
	for _, x := range []struct {
		by, about string
		void      bool
	}{{"c", "a", false}, {"c", "b", false}, {"a", "c", false}, {"b", "c", false}, {"a", "b", true}} {
		suspects = append(suspects, membership.Suspicion{Node: x.about, Incarnation: membership.Incarnation(x.about),
			By: x.by, Watcher: membership.Incarnation(x.by)})
		d.View = verdict.Judge(verdict.Records{Members: members, Nodes: nodes, Suspects: suspects},
			d.evidence, d.limits, now)
		d.noteCrowd(len(members), now)
		if got := d.evidence.Void.After(now); got != x.void {
			t.Errorf("after %s suspected %s silence is void: %v, want %v", x.by, x.about, got, x.void)
		}
	}
}
