package verdict

import (
	"slices"
	"strings"
	"testing"

	"github.com/elasticd/elastic/pkg/membership"
)

// The ring is a, b, c, d: c watches b and a, d watches c and b.
func TestThoseThatALostNodeWatchedAreAsked(t *testing.T) {
	answers := func(node string, kind membership.AnswerKind) func(*trial) {
		return func(x *trial) {
			x.ev.Answers[member(node).Incarnation] = Answered{membership.Answer{Kind: kind}, judgeNow}
		}
	}
	judge := func(node string) func(*trial) {
		return func(x *trial) { x.ev.Self = member(node).Incarnation }
	}
	for _, c := range []struct {
		name          string
		x             *trial
		ring          int
		unasked, dial string
	}{
		{"no node is suspected", given(), 4, "", ""},
		{"c is in doubt", given(wrote("d")), 4, "a b", "a b c"},
		{"c is lost", given(wrote("d"), dialled(membership.Refused, 0)), 4, "a b", "a b"},
		{"b answered",
			given(wrote("d"), dialled(membership.Refused, 0), answers("b", membership.Same)), 4, "a", "a"},
		{"b refused: its other watcher will say so",
			given(wrote("d"), dialled(membership.Refused, 0), answers("b", membership.Refused)), 4, "a b", "a"},
		{"a judges", given(wrote("d"), dialled(membership.Refused, 0), judge("a")), 4, "b", "b"},
		{"the key of c is gone", given(noKey(0)), 4, "a b", "a b c"},
		{"c is a leaver, and watches no node", given(wrote("d")), 2, "", "c"},
		{"the world has ended: no node is watched", given(wrote("d")), 0, "", "c"},
	} {
		v := Judge(Records{Members: c.x.members, Ring: c.ring, Nodes: c.x.nodes, Suspects: c.x.suspects},
			c.x.ev, DefaultTimeouts(3*sec), judgeNow)
		var unasked, dial []string
		for _, m := range v.Members {
			if m.Unasked {
				unasked = append(unasked, m.Node)
			}
		}
		for _, r := range v.Ask {
			dial = append(dial, r.Node)
		}
		slices.Sort(dial)
		if got := strings.Join(unasked, " "); got != c.unasked {
			t.Errorf("%s: not asked are %q, want %q", c.name, got, c.unasked)
		}
		if got := strings.Join(dial, " "); got != c.dial {
			t.Errorf("%s: dialled are %q, want %q", c.name, got, c.dial)
		}
	}
}
