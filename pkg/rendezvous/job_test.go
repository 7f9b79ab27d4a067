package rendezvous

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/roles"
	"github.com/elasticd/elastic/pkg/schema"
)

// worldOf is a World of these nodes, by rank. The number after a name is its incarnation.
func worldOf(g int, cause Cause, names ...string) *World {
	w := &World{Generation: schema.Generation(g), Cause: cause}
	for _, n := range names {
		w.Members = append(w.Members,
			membership.Ref{Node: n[:1], Incarnation: membership.Incarnation(n), Address: n + ":1"})
	}
	return w
}

func TestKeepsServers(t *testing.T) {
	two := &Job{Slots: 1, Roles: &roles.Spec{Mode: roles.PS, Servers: make([]string, 2)}}
	apart := &Job{Slots: 1, Hosts: []string{"10.0.0.1", "10.0.0.2"}, Roles: &roles.Spec{Mode: roles.PS,
		Servers: []string{"10.0.0.2:6170"}, Trainers: []string{"10.0.0.1", "10.0.0.2"}}}
	old := worldOf(3, CauseFirst, "a1", "b1", "c1")
	for _, c := range []struct {
		name string
		job  *Job
		next *World
		want bool
	}{
		{"a trainer less", two, worldOf(4, CauseScale, "a1", "b1"), true},
		{"a trainer more", two, worldOf(4, CauseNodeJoined, "a1", "b1", "c1", "d1"), true},
		{"a node without a server was lost", two, worldOf(4, CauseNodeLost, "a1", "b1", "d1"), true},
		{"a server was lost with its node", two, worldOf(4, CauseNodeLost, "a1", "d1", "c1"), false},
		{"its node is back", two, worldOf(4, CauseNodeLost, "a1", "b2", "c1"), false},
		{"the nodes of the servers changed their ranks", two, worldOf(4, CauseScale, "b1", "a1", "c1"),
			false},
		{"one node is left", two, worldOf(4, CauseScale, "a1"), false},
		{"a worker failed", two, worldOf(4, CauseWorkerFailed, "a1", "b1", "c1"), false},
		{"a worker asked for it", two, worldOf(4, CauseAsked, "a1", "b1", "c1"), false},
		{"a generation between", two, worldOf(5, CauseScale, "a1", "b1"), false},
		{"rank 0 has no server", apart, worldOf(4, CauseScale, "a1", "b1", "c1"), false},
	} {
		if got := c.job.KeepsServers(old, c.next); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// The nodes of servers save parts, and so does the node of rank 0.
func TestSavers(t *testing.T) {
	w := worldOf(1, CauseFirst, "a1", "b1", "c1")
	for want, job := range map[string]*Job{
		"[a b c]": {Slots: 1},
		"[a b]":   {Slots: 1, Roles: &roles.Spec{Mode: roles.PS, Servers: make([]string, 2)}},
		"[a c]": {Slots: 1, Hosts: []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"},
			Roles: &roles.Spec{Mode: roles.PS,
				Servers: []string{"10.0.0.3:6170"}, Trainers: []string{"10.0.0.1"}}},
	} {
		var names []string
		for _, r := range job.Savers(w) {
			names = append(names, r.Node)
		}
		if d := cmp.Diff(want, fmt.Sprint(names)); d != "" {
			t.Errorf("savers (-want +got):\n%s", d)
		}
	}
}
