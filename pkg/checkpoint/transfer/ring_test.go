package transfer

import (
	"strings"
	"testing"

	"github.com/elasticd/elastic/pkg/membership"
)

// placed are nodes that are written as NAME@MACHINE.
func placed(words string) (nodes []membership.Node) {
	for w := range strings.FieldsSeq(words) {
		name, machine, _ := strings.Cut(w, "@")
		nodes = append(nodes, membership.Node{Ref: membership.Ref{Node: name}, Machine: machine})
	}
	return nodes
}

func TestRing(t *testing.T) {
	for _, c := range []struct {
		what, members, others string
		n                     int
		want                  string // of each member: the nodes that have its copies
	}{
		{"each on the next one", "c@1 a@2 b@3", "", 1, "c:a a:b b:c"},
		{"two copies", "a@1 b@2 c@3 d@4", "", 2, "a:b,c b:c,d c:d,a d:a,b"},
		{"more copies than nodes", "a@1 b@2", "", 2, "a:b b:a"},
		{"one node", "a@1", "", 1, "a:"},
		{"two machines with two nodes", "a@1 b@1 c@2 d@2", "", 1, "a:c b:d c:a d:b"},
		{"two copies on two machines", "a@1 b@1 c@2 d@2", "", 2, "a:c,b b:d,c c:a,d d:b,a"},
		{"machines of two sizes", "a@1 b@1 c@2", "", 1, "a:c b:c c:a"},
		{"one machine", "a@1 b@1 c@1", "", 1, "a:b b:c c:a"},
		{"one machine, and a spare on another", "a@1 b@1", "s@2", 1, "a:s b:s"},
		{"no spare where members will do", "a@1 b@2", "s@3", 1, "a:b b:a"},
	} {
		members := placed(c.members)
		var got []string
		for _, m := range members {
			var names []string
			for _, x := range Ring(members, placed(c.others), m.Node, c.n) {
				names = append(names, x.Node)
			}
			got = append(got, m.Node+":"+strings.Join(names, ","))
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
	if got := Ring(placed("a@1"), nil, "x", 1); got != nil {
		t.Errorf("of a node that is no member: %v", got)
	}
}
