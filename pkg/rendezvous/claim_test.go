package rendezvous

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// saved is a committed checkpoint: its bytes are told by id, its holders by name.
func saved(n checkpoint.Number, id byte, holders ...string) checkpoint.Head {
	h := checkpoint.Head{Number: n, Generation: 2, Manifest: checkpoint.Hash{id}, Copies: max(1, len(holders))}
	for _, x := range holders {
		h.Holders = append(h.Holders, membership.Ref{Node: x, Incarnation: "1"})
	}
	return h
}

// says makes the claim of a node to job "u" of world g with those members; has are the checkpoints
// on its disk.
func says(node string, g schema.Generation, members string, has ...checkpoint.Head) Claim {
	c := Claim{Node: node, Looked: true, Job: Job{UID: "u", Time: time.Unix(100, 0), Rules: Rules{Replicas: 2}},
		Generation: g, World: g, Rank: -1,
		Members: strings.Fields(members), Heads: has, Wish: Wish{NP: 2, Request: "r"}, WishRev: 7}
	c.Count, c.Rank = len(c.Members), slices.Index(c.Members, node)
	if n := len(has); n > 0 {
		c.Newest, c.Known = &has[n-1], has[n-1]
	}
	return c
}

func (c Claim) of(uid schema.UID, before ...schema.UID) Claim {
	c.Job.UID = uid
	if n := len(before); n > 0 {
		c.Job.Succeeds, c.Job.Lineage = before[n-1], before[:n-1]
	}
	return c
}

func (c Claim) knows(h checkpoint.Head) Claim { c.Known = h; return c }

func (c Claim) damaged() Claim { c.Newest = nil; return c }

func (c Claim) made(at int64) Claim { c.Job.Time = time.Unix(at, 0); return c }

func (c Claim) later(f func(*Claim)) Claim { f(&c); return c }

// told is a verdict in words.
func told(v Verdict) string {
	switch {
	case v.Newer != "":
		return "yield to " + string(v.Newer)
	case v.Remake == nil && v.Holds != nil:
		return fmt.Sprintf("wait for %s with %d", strings.Join(v.Missing, " "), v.Holds.Number)
	case v.Remake == nil && len(v.Missing) == 0:
		return "wait for who knows more"
	case v.Remake == nil:
		return "wait for " + strings.Join(v.Missing, " ")
	}
	r := v.Remake
	s := fmt.Sprintf("remake: fence %d", r.Fence)
	if r.Head != nil {
		s += fmt.Sprintf(", %d was %d on", r.Head.Number, r.Was)
		for _, h := range r.Head.Holders {
			s += " " + h.Node
		}
	}
	for _, h := range r.History {
		s += fmt.Sprintf(", and %d", h.Number)
	}
	if len(r.Missing) > 0 {
		s += ", without " + strings.Join(r.Missing, " ")
	}
	if r.Ended {
		s += ", a new attempt"
	}
	return s
}

func TestReclaim(t *testing.T) {
	one, two, three := saved(1, 1, "a", "b"), saved(2, 2, "a", "b"), saved(3, 3, "a")
	captured := checkpoint.Head{Number: 3, Generation: 3, Manifest: checkpoint.Hash{9}}
	large := strings.Repeat("n ", 200)
	for _, c := range []struct {
		what   string
		claims []Claim
		limit  bool
		want   string
	}{
		{"every member is here", []Claim{says("a", 3, "a b", one, two), says("b", 3, "a b", two)}, false,
			"remake: fence 3, 3 was 2 on a b, and 1"},
		{"one of two is not", []Claim{says("a", 3, "a b", two)}, false, "wait for b"},
		{"nor after the limit: fewer than copies", []Claim{says("a", 3, "a b", two)}, true,
			"remake: fence 3, 3 was 2 on a, without b"},
		{"two of three are not, and there are two copies", []Claim{says("c", 3, "a b c", one)}, true, "wait for a b"},
		{"fewer members than copies are, but with a spare that may have one",
			[]Claim{says("a", 3, "a b", two).later(func(c *Claim) { c.Spares = []string{"s"} })}, true,
			"wait for b s"},
		{"the spare is here", []Claim{says("a", 3, "a b", two).later(func(c *Claim) { c.Spares = []string{"s"} }),
			says("s", 3, "a b", two).later(func(c *Claim) { c.Rank = -1 })}, true,
			"remake: fence 3, 3 was 2 on a s, without b"},
		{"one has not looked at its disk yet",
			[]Claim{says("a", 3, "a b", two), says("b", 3, "a b").later(func(c *Claim) { c.Looked = false })}, false,
			"wait for b"},
		{"one of one is not", []Claim{says("s", 3, "a", two).later(func(c *Claim) { c.Rank = -1 })}, true,
			"wait for a"},
		{"one copy is asked for", []Claim{says("a", 3, "a b", two).later(func(c *Claim) { c.Job.Rules.Replicas = 1 })},
			true, "wait for b"},
		{"a commit that only a missing member has",
			[]Claim{says("b", 3, "a b c", two).knows(three), says("c", 3, "a b c")}, true,
			"wait for a with 3"},
		{"a commit that only a missing spare has", []Claim{says("a", 3, "a b", two).knows(saved(3, 3, "s")),
			says("b", 3, "a b")}, true,
			"wait for s with 3"},
		{"a commit that nobody can read: all who had it are here",
			[]Claim{says("a", 3, "a b", two).knows(saved(3, 3, "a", "b")), says("b", 3, "a b", two)}, false,
			"remake: fence 3, 4 was 2 on a b"},
		{"the newest is damaged on one of two",
			[]Claim{says("a", 3, "a b", one, two).damaged(), says("b", 3, "a b", two)}, false,
			"remake: fence 3, 3 was 2 on a b, and 1"},
		{"a save that was not committed is newer",
			[]Claim{says("a", 3, "a b", two).later(func(c *Claim) { c.Newest = &captured }), says("b", 3, "a b", two)},
			false,
			"remake: fence 3, 4 was 3 on a, and 2"},
		{"but not than what was committed with its number",
			[]Claim{says("b", 3, "a b", two).later(func(c *Claim) { c.Newest = &captured }),
				says("a", 3, "a b", two, three)}, false,
			"remake: fence 3, 4 was 3 on a, and 2"},
		{"a holder that is no member may have gone on", []Claim{says("a", 3, "a", two)}, false, "wait for b"},
		{"but not after the limit", []Claim{says("a", 3, "a", two)}, true, "remake: fence 3, 3 was 2 on a"},
		{"a spare may have gone on", []Claim{says("a", 3, "a").later(func(c *Claim) { c.Spares = []string{"s"} })},
			false, "wait for s"},
		{"the newest World counts", []Claim{says("a", 3, "a b"), says("b", 4, "b c")}, false, "wait for c"},
		{"a generation that was only seen", []Claim{says("a", 3, "a").later(func(c *Claim) { c.Generation = 9 })},
			false, "remake: fence 9"},
		{"nobody has a checkpoint", []Claim{says("a", 3, "a b"), says("b", 3, "a b")}, false, "remake: fence 3"},
		{"nobody knows a World", []Claim{says("a", 0, "")}, false, "wait for who knows more"},
		{"nor after the limit", []Claim{says("a", 0, "")}, true, "remake: fence 0"},
		{"a failed job", []Claim{says("a", 3, "a", saved(2, 2, "a")).later(func(c *Claim) { c.Phase = Failed })}, false,
			"remake: fence 3, 3 was 2 on a, a new attempt"},
		{"another job of the name, made later", []Claim{says("a", 3, "a"), says("b", 9, "b").of("v").made(200)}, false,
			"yield to v"},
		{"another job of the name, made before", []Claim{says("a", 3, "a"), says("b", 9, "b").of("v").made(50)}, false,
			"remake: fence 9"},
		{"the job that succeeds it, whatever clocks say",
			[]Claim{says("a", 3, "a"), says("b", 3, "b").of("v", "u").made(50)}, false, "yield to v"},
		{"and that after that", []Claim{says("a", 3, "a"), says("b", 3, "b").of("w", "u", "v").made(50)}, false,
			"yield to w"},
		{"a large World", []Claim{says("a", 3, large).later(func(c *Claim) { c.Members, c.Rank = nil, 5 })}, true,
			"wait for node rank 0"},
	} {
		t.Run(c.what, func(t *testing.T) {
			for range 2 { // whatever the order
				got := told(Reclaim(c.claims, "u", c.limit))
				if !strings.HasPrefix(got, c.want) || c.want[0] == 'r' && got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
				slices.Reverse(c.claims)
			}
		})
	}
}

// The newest wish that anybody heard of holds.
func TestReclaimTakesTheNewestWish(t *testing.T) {
	claims := []Claim{says("a", 3, "a b").later(func(c *Claim) { c.Wish.NP, c.WishRev = 5, 9 }), says("b", 3, "a b")}
	if r := Reclaim(claims, "u", false).Remake; r == nil || r.Wish.NP != 5 {
		t.Errorf("%+v", r)
	}
}

// A node that was away when the job was made again knows it under the uid that it had: what it has
// counts, by its bytes, where the others know them under another number.
func TestReclaimAfterTwoLosses(t *testing.T) {
	head := saved(5, 4, "c") // was number 4 in the store before
	old := says("c", 2, "a c", saved(3, 3), saved(4, 4))
	claims := []Claim{says("a", 3, "a").of("v", "u").knows(head), old}
	if got, want := told(Reclaim(claims, "v", false)), "remake: fence 3, 6 was 5 on c"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	captured := saved(5, 9) // and never committed
	claims[1].Newest = &captured
	if got, want := told(Reclaim(claims, "v", false)), "remake: fence 3, 6 was 5 on c"; got != want {
		t.Errorf("with a capture beyond it: %s, want %s", got, want)
	}
	claims[0] = says("a", 3, "a", saved(6, 6)).of("v", "u")
	claims[1] = says("c", 2, "a c", saved(3, 3), saved(7, 7)) // never adopted: it is offered when c has joined
	if got, want := told(Reclaim(claims, "v", true)), "remake: fence 3, 8 was 6 on a"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	claims[0] = says("a", 3, "a").of("v", "u") // which has none at all
	if got, want := told(Reclaim(claims, "v", true)), "remake: fence 3, 8 was 7 on c, and 3"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The operator goes on without who is missing, from what the others have.
func TestInsist(t *testing.T) {
	claims := []Claim{says("c", 3, "a b c", saved(1, 1), saved(2, 2)).knows(saved(3, 3, "a", "b"))}
	if got := told(Reclaim(claims, "u", true)); got != "wait for a b with 3" {
		t.Error(got)
	}
	if got, want := told(Verdict{Remake: Insist(claims, 2)}),
		"remake: fence 3, 4 was 2 on c, and 1, without a b"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if r := Insist(claims, 3); r != nil {
		t.Errorf("what nobody has: %+v", r)
	}
}

func TestClaimed(t *testing.T) {
	j := Job{UID: "u", Attempt: 1}
	w := World{Generation: 4, Attempt: 1, Phase: Running, NP: 3, Request: "r", WishRev: 9,
		Members: []membership.Ref{{Node: "a"}, {Node: "b"}}, Count: 2}
	c := Claimed("b", j, Wish{}, &w)
	if c.World != 4 || c.Rank != 1 || !slices.Equal(c.Members, []string{"a", "b"}) || c.Wish.NP != 3 || c.Phase != "" ||
		!c.Decides() {
		t.Errorf("%+v", c)
	}
	for range 150 {
		w.Members = append(w.Members, membership.Ref{Node: fmt.Sprint("n", len(w.Members))})
	}
	w.Count, w.Phase = len(w.Members), Stopped
	if c = Claimed("a", j, Wish{}, &w); !c.Decides() || len(c.Members) != w.Count || c.Phase != Stopped {
		t.Errorf("rank 0 of many: %+v", c)
	}
	if c = Claimed("n100", j, Wish{}, &w); c.Decides() || c.Members != nil || c.Count != w.Count {
		t.Errorf("rank 100 of many: %+v", c)
	}
}
