package reclaim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// saved is a committed checkpoint. id stands for its bytes.
func saved(n checkpoint.Number, id byte, holders ...string) checkpoint.Head {
	h := checkpoint.Head{Number: n, Generation: 2, Manifest: checkpoint.Hash{id},
		Copies: max(1, len(holders))}
	for _, x := range holders {
		h.Holders = append(h.Holders, membership.Ref{Node: x, Incarnation: "1"})
	}
	return h
}

// claim is a claim that a test makes.
type claim rendezvous.Claim

func all(claims []claim) (list []rendezvous.Claim) {
	for _, c := range claims {
		list = append(list, rendezvous.Claim(c))
	}
	return list
}

func decide(claims []claim, uid schema.UID, wait Wait) Verdict { return Decide(all(claims), uid, wait) }

// says returns the claim of a node to job "u", of World g with those members; has are the
// checkpoints on its disk.
func says(node string, g schema.Generation, members string, has ...checkpoint.Head) claim {
	c := claim{Node: node, Looked: true, Lived: true,
		Job:        rendezvous.Job{UID: "u", Time: time.Unix(100, 0), Rules: rendezvous.Rules{Replicas: 2}},
		Generation: g, World: g, Rank: -1,
		Members: strings.Fields(members), Heads: has, Wish: rendezvous.Wish{NP: 2, Request: "r"}, WishRev: 7}
	c.Count, c.Rank = len(c.Members), slices.Index(c.Members, node)
	if n := len(has); n > 0 {
		c.Newest, c.Known = &has[n-1], has[n-1]
	}
	return c
}

func (c claim) of(uid schema.UID, before ...schema.UID) claim {
	c.Job.UID = uid
	if n := len(before); n > 0 {
		c.Job.Succeeds, c.Job.Lineage = before[n-1], before[:n-1]
	}
	return c
}

func (c claim) knows(h checkpoint.Head) claim { c.Known = h; return c }

// again returns the claim of an agent that started after the store was lost.
func (c claim) again() claim { c.Lived = false; return c }

func (c claim) damaged() claim { c.Newest = nil; return c }

func (c claim) made(at int64) claim { c.Job.Time = time.Unix(at, 0); return c }

func (c claim) later(f func(*claim)) claim { f(&c); return c }

// stepText describes a verdict.
func stepText(v Verdict) string {
	switch {
	case v.Other != "":
		return "yield to " + string(v.Other)
	case v.Remake == nil && v.Holds != nil:
		return fmt.Sprintf("wait for %s with %d", strings.Join(v.Missing, " "), v.Holds.Number)
	case v.Remake == nil && len(v.Missing) == 0:
		return "wait for a node that knows more"
	case v.Remake == nil:
		return "wait for " + strings.Join(v.Missing, " ")
	}
	r := v.Remake
	s := fmt.Sprintf("remake: fence %d", r.Fence)
	if r.Head != nil {
		s += fmt.Sprintf(", %d was %d on", r.Head.Number, r.Was.Number)
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

func TestDecide(t *testing.T) {
	one, two, three := saved(1, 1, "a", "b"), saved(2, 2, "a", "b"), saved(3, 3, "a")
	captured := checkpoint.Head{Number: 3, Generation: 3, Manifest: checkpoint.Hash{9}}
	beyond := checkpoint.Head{Number: 4, Generation: 2, Manifest: checkpoint.Hash{9}}
	heard := checkpoint.Head{Number: 2, Generation: 2, Manifest: checkpoint.Hash{8}}
	large := strings.Repeat("n ", 200)
	for _, c := range []struct {
		what   string
		claims []claim
		wait   Wait
		want   string
	}{
		{"every member is here", []claim{says("a", 3, "a b", one, two), says("b", 3, "a b", two)}, ForAll,
			"remake: fence 3, 3 was 2 on a b, and 1"},
		{"a copy of which its node did not hear that it was committed is newer than its number says",
			[]claim{says("a", 2, "a b", one).later(func(c *claim) { c.Newest, c.Sequence = &heard, 7 }),
				says("b", 2, "a b", one, two).later(func(c *claim) { c.Sequence = 6 })}, ForAll,
			"remake: fence 2, 4 was 3 on a, and 1, and 2"},
		{"but not where a World came after it",
			[]claim{says("a", 2, "a b", one).later(func(c *claim) { c.Newest, c.Sequence = &heard, 7 }),
				says("b", 3, "a b", one, two).later(func(c *claim) { c.Sequence = 6 })}, ForAll,
			"remake: fence 3, 3 was 2 on b, and 1"},
		{"a node that is still looking at its disk knows of a commit", []claim{says("a", 3, "a b", one),
			says("b", 3, "a b").knows(two).later(func(c *claim) { c.Looked = false })}, ForEnough,
			"wait for b with 2"},
		{"one of two is not", []claim{says("a", 3, "a b", two)}, ForAll, "wait for b"},
		{"the store shows larger numbers", []claim{says("a", 3, "a b", two).later(func(c *claim) { c.Top = 8 }),
			says("b", 3, "a b", two)}, ForAll, "remake: fence 3, 9 was 2 on a b"},
		{"nor after the limit: fewer than copies", []claim{says("a", 3, "a b", two)}, ForEnough,
			"remake: fence 3, 3 was 2 on a, without b"},
		{"nor after the limit where the other one may have gone on with new nodes",
			[]claim{says("a", 3, "a b", two).again()}, ForEnough, "wait for b"},
		{"also where an agent lived in an older World", []claim{says("a", 3, "a b", two).again(),
			says("c", 2, "a b c", two)}, ForEnough, "wait for b"},
		{"so may a spare",
			[]claim{says("a", 3, "a", two).again().later(func(c *claim) { c.Spares = []string{"s"} })},
			ForEnough, "wait for s"},
		{"two of three are not, and there are two copies", []claim{says("c", 3, "a b c", one)}, ForEnough,
			"wait for a b"},
		{"fewer members than copies are, but with a spare that may have one",
			[]claim{says("a", 3, "a b", two).later(func(c *claim) { c.Spares = []string{"s"} })}, ForEnough,
			"wait for b s"},
		{"the spare is here",
			[]claim{says("a", 3, "a b", two).later(func(c *claim) { c.Spares = []string{"s"} }),
				says("s", 3, "a b", two).later(func(c *claim) { c.Rank = -1 })}, ForEnough,
			"remake: fence 3, 3 was 2 on a s, without b"},
		{"one has not looked at its disk yet",
			[]claim{says("a", 3, "a b", two),
				says("b", 3, "a b").later(func(c *claim) { c.Looked = false })}, ForAll,
			"wait for b"},
		{"one of one is not",
			[]claim{says("s", 3, "a", two).later(func(c *claim) { c.Rank = -1 })}, ForEnough, "wait for a"},
		{"one copy is asked for",
			[]claim{says("a", 3, "a b", two).later(func(c *claim) { c.Job.Rules.Replicas = 1 })},
			ForEnough, "wait for b"},
		{"a commit that only a missing member has",
			[]claim{says("b", 3, "a b c", two).knows(three), says("c", 3, "a b c")}, ForEnough,
			"wait for a with 3"},
		{"a commit that only a missing spare has", []claim{says("a", 3, "a b", two).knows(saved(3, 3, "s")),
			says("b", 3, "a b")}, ForEnough,
			"wait for s with 3"},
		{"a commit that no node can read: all that had it are here",
			[]claim{says("a", 3, "a b", two).knows(saved(3, 3, "a", "b")), says("b", 3, "a b", two)}, ForAll,
			"remake: fence 3, 4 was 2 on a b"},
		{"the newest is damaged on one of two",
			[]claim{says("a", 3, "a b", one, two).damaged(), says("b", 3, "a b", two)}, ForAll,
			"remake: fence 3, 3 was 2 on a b, and 1"},
		{"a save that was not committed is newer",
			[]claim{says("a", 3, "a b", two).later(func(c *claim) { c.Newest = &captured }),
				says("b", 3, "a b", two)},
			ForAll,
			"remake: fence 3, 4 was 3 on a, and 2"},
		{"but not than what was committed with its number",
			[]claim{says("b", 3, "a b", two).later(func(c *claim) { c.Newest = &captured }),
				says("a", 3, "a b", two, three)}, ForAll,
			"remake: fence 3, 4 was 3 on a, and 2"},
		{"a holder that is no member may have gone on", []claim{says("a", 3, "a", two)}, ForAll,
			"wait for b"},
		{"but not after the limit", []claim{says("a", 3, "a", two)}, ForEnough,
			"remake: fence 3, 3 was 2 on a"},
		{"a spare gave up the job for another one, of which no World is known", []claim{
			says("a", 3, "a", two).again().later(func(c *claim) { c.Spares = []string{"b"} }),
			says("b", 0, "").of("v").later(func(c *claim) { c.GaveUp = []schema.UID{"t", "u"} })},
			ForEnough, "remake: fence 3, 3 was 2 on a"},
		{"so did a member", []claim{says("a", 3, "a b", saved(2, 2, "a")).again(),
			says("b", 0, "").of("v").later(func(c *claim) { c.GaveUp = []schema.UID{"u"} })},
			ForAll, "remake: fence 3, 3 was 2 on a"},
		{"a member gave up a job that this one succeeds: it may have come back in this one", []claim{
			says("a", 3, "a b", saved(2, 2, "a")).of("u", "t").again(),
			says("b", 0, "").of("v").later(func(c *claim) { c.GaveUp = []schema.UID{"t"} })},
			ForEnough, "wait for b"},
		{"a member gave up another job", []claim{says("a", 3, "a b", two).again(),
			says("b", 0, "").of("v").later(func(c *claim) { c.GaveUp = []schema.UID{"t"} })},
			ForEnough, "wait for b"},
		{"a holder gave up the job: it may have a commit all the same", []claim{
			says("a", 3, "a b", two).knows(saved(3, 3, "b")),
			says("b", 0, "").of("v").later(func(c *claim) { c.GaveUp = []schema.UID{"u"} })},
			ForEnough, "wait for b with 3"},
		{"a spare may have gone on",
			[]claim{says("a", 3, "a").later(func(c *claim) { c.Spares = []string{"s"} })},
			ForAll, "wait for s"},
		{"the newest World counts", []claim{says("a", 3, "a b"), says("b", 4, "b c")}, ForAll, "wait for c"},
		{"a generation that was only seen",
			[]claim{says("a", 3, "a").later(func(c *claim) { c.Generation = 9 })}, ForAll, "remake: fence 9"},
		{"no node has a checkpoint", []claim{says("a", 3, "a b"), says("b", 3, "a b")}, ForAll,
			"remake: fence 3"},
		{"no node knows a World", []claim{says("a", 0, "").again()}, ForAll, "wait for a node that knows more"},
		{"nor after the limit", []claim{says("a", 0, "").again()}, ForEnough, "remake: fence 0"},
		{"one that lived would have heard of a World", []claim{says("a", 0, "", one).again(),
			says("b", 0, "", one)}, ForAll, "remake: fence 0, 2 was 1 on a b"},
		{"a node that came when the job had been made again knows those that did that",
			[]claim{says("c", 0, "", one).later(
				func(c *claim) { c.Job.Claimants = []string{"a", "b"} })}, ForEnough, "wait for a b"},
		{"all but one of them are enough", []claim{says("c", 0, "", one).later(
			func(c *claim) { c.Job.Claimants = []string{"a", "b"} }), says("b", 0, "", one)}, ForEnough,
			"remake: fence 0, 2 was 1 on b c, without a"},
		{"the job went back, and the node that has that checkpoint did not hear of it",
			[]claim{says("b", 2, "b c", one, two, three),
				says("c", 3, "b c", three).knows(saved(4, 2, "a", "b"))}, ForEnough,
			"remake: fence 3, 5 was 4 on b, and 1, and 3"},
		{"and it captured a save since",
			[]claim{says("b", 2, "b c", one, two, three).later(func(c *claim) { c.Newest = &beyond }),
				says("c", 3, "b c").knows(saved(4, 2, "a", "b"))}, ForEnough,
			"remake: fence 3, 5 was 4 on b, and 1, and 3"},
		{"and cannot read any", []claim{says("b", 2, "b c", one, two, three).damaged(),
			says("c", 3, "b c", three).knows(saved(4, 2, "b"))}, ForEnough,
			"remake: fence 3, 5 was 3 on b c, and 1, and 2"},
		{"a failed job", []claim{says("a", 3, "a", saved(2, 2, "a")).later(
			func(c *claim) { c.Phase = rendezvous.Failed })}, ForAll,
			"remake: fence 3, 3 was 2 on a, a new attempt"},
		{"another job of the name, made later",
			[]claim{says("a", 3, "a"), says("b", 9, "b").of("v").made(200)}, ForAll, "yield to v"},
		{"another job of the name, made before",
			[]claim{says("a", 3, "a"), says("b", 9, "b").of("v").made(50)}, ForAll, "remake: fence 9"},
		{"the job that succeeds it, whatever clocks say",
			[]claim{says("a", 3, "a"), says("b", 3, "b").of("v", "u").made(50)}, ForAll, "yield to v"},
		{"and that after that",
			[]claim{says("a", 3, "a"), says("b", 3, "b").of("w", "u", "v").made(50)}, ForAll, "yield to w"},
		{"a large World",
			[]claim{says("a", 3, large).later(func(c *claim) { c.Members, c.Rank = nil, 5 })}, ForEnough,
			"wait for node rank 0"},
	} {
		t.Run(c.what, func(t *testing.T) {
			for range 2 { // whatever the order
				got := stepText(decide(c.claims, "u", c.wait))
				if !strings.HasPrefix(got, c.want) || c.want[0] == 'r' && got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
				slices.Reverse(c.claims)
			}
		})
	}
}

// The newest wish of all claims is used.
func TestDecideTakesTheNewestWish(t *testing.T) {
	claims := []claim{says("a", 3, "a b").later(func(c *claim) { c.Wish.NP, c.WishRev = 5, 9 }),
		says("b", 3, "a b")}
	if r := decide(claims, "u", ForAll).Remake; r == nil || r.Wish.NP != 5 {
		t.Errorf("%+v", r)
	}
}

// A node that was away when the job was made again claims it under its former uid. Its checkpoints
// count, under the numbers that the others give to the same bytes.
func TestDecideAfterTwoLosses(t *testing.T) {
	head := saved(5, 4, "c") // was number 4 in the store before
	old := says("c", 2, "a c", saved(3, 3), saved(4, 4))
	claims := []claim{says("a", 3, "a").of("v", "u").knows(head), old}
	if got, want := stepText(decide(claims, "v", ForAll)), "remake: fence 3, 6 was 5 on c"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	captured := saved(5, 9) // and never committed
	claims[1].Newest = &captured
	if got, want := stepText(decide(claims, "v", ForAll)), "remake: fence 3, 6 was 5 on c"; got != want {
		t.Errorf("with a capture beyond it: %s, want %s", got, want)
	}
	claims[0] = says("a", 3, "a", saved(6, 6)).of("v", "u")
	// It was never adopted, so c offers it after it has joined.
	claims[1] = says("c", 2, "a c", saved(3, 3), saved(7, 7))
	if got, want := stepText(decide(claims, "v", ForEnough)), "remake: fence 3, 8 was 6 on a"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	claims[0] = says("a", 3, "a").of("v", "u") // which has none at all
	if got, want := stepText(decide(claims, "v", ForEnough)),
		"remake: fence 3, 8 was 7 on c, and 3"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The store was set back to claims, and the job was made again from them twice. The nodes of both
// jobs are then in one job, whichever of the two went on.
func TestDecideOfTwins(t *testing.T) {
	remade := func(c claim, uid schema.UID, at int64) claim {
		c = c.of(uid, "u").made(at)
		c.Job.Claimants = []string{"a", "b"}
		return c
	}
	one, two := saved(1, 1, "b"), saved(2, 2, "b")
	for _, c := range []struct {
		what   string
		claims []claim
		want   string
	}{
		{"neither has a world", []claim{remade(says("a", 0, "", one), "v", 200),
			remade(says("b", 0, "", one), "w", 100)}, "remake: fence 0, 2 was 1 on a b"},
		{"the older one went on", []claim{remade(says("a", 0, "", one), "v", 200),
			remade(says("b", 4, "b", one, two), "w", 100)}, "remake: fence 4, 3 was 2 on b, and 1"},
		{"nodes of the older one are missing", []claim{remade(says("a", 0, "", one), "v", 200),
			remade(says("b", 4, "b c d", one), "w", 100)}, "wait for c d"},
	} {
		t.Run(c.what, func(t *testing.T) {
			v := decide(c.claims, "v", ForEnough)
			if got := stepText(v); got != c.want {
				t.Fatalf("%s, want %s", got, c.want)
			}
			if v.Remake == nil {
				return
			}
			after := rendezvous.Job{UID: "x", Succeeds: v.Remake.Job.UID, Lineage: v.Remake.Job.Predecessors()}
			for _, x := range c.claims {
				if !after.Follows(x.Job.UID) {
					t.Errorf("%s of %s cannot go on in the job", x.Node, x.Job.UID)
				}
			}
		})
	}
}

// The operator continues without the missing nodes, from a checkpoint of the others.
func TestWithout(t *testing.T) {
	claims := []claim{says("c", 3, "a b c", saved(1, 1), saved(2, 2)).knows(saved(3, 3, "a", "b"))}
	if got := stepText(decide(claims, "u", ForEnough)); got != "wait for a b with 3" {
		t.Error(got)
	}
	if got, want := stepText(Verdict{Remake: Without(all(claims), 2)}),
		"remake: fence 3, 4 was 2 on c, and 1, without a b"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if r := Without(all(claims), 3); r != nil {
		t.Errorf("a checkpoint that no node has: %+v", r)
	}
	copied := saved(3, 3)
	copied.Copies, copied.Number = 0, 2 // its node did not hear of the commit as number 4
	claims = []claim{says("c", 3, "a b c", saved(1, 1)).later(func(c *claim) { c.Newest = &copied }),
		says("d", 3, "a b c").knows(saved(4, 3, "a"))}
	if got := Choices(all(claims)); !slices.Equal(got, []checkpoint.Number{1, 4}) {
		t.Errorf("choices %v", got)
	}
	if got, want := stepText(Verdict{Remake: Without(all(claims), 4)}),
		"remake: fence 3, 5 was 4 on c, and 1, without a b"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A missing node may be here, in a job of the same name that never ran: without its disk, or because it
// came first. The text says so, because an operator who sees that the node is there does not know why the
// others wait for it.
func TestMissingNodesThatAreHere(t *testing.T) {
	two, three := saved(2, 2, "a", "b"), saved(3, 3, "b")
	blank := func(node string) claim { return says(node, 0, "").of("blank-" + schema.UID(node)) }
	for _, c := range []struct {
		claims []claim
		text   string
		nodes  string
	}{
		{[]claim{says("a", 3, "a b c", two)}, "waiting for b, c, to make it again", "a"},
		{[]claim{says("a", 3, "a b c", two), blank("b")},
			"waiting for b, c, to make it again (b is here, in a new job of that name)", "a"},
		{[]claim{says("a", 3, "a b c", two), blank("b"), blank("c"), blank("new")},
			"waiting for b, c, to make it again (b, c are here, in new jobs of that name)", "a"},
		{[]claim{says("a", 3, "a b", two).knows(three), says("c", 3, "a b"), blank("b")},
			"waiting for b: no other node has checkpoint 3 (b is here, in a new job of that name)", "a c"},
	} {
		claims := all(c.claims)
		if got := DecideNewest(claims).Text(); got != c.text {
			t.Errorf("%s; want %s", got, c.text)
		}
		if got := strings.Join(Claimants(claims), " "); got != c.nodes {
			t.Errorf("claimed by %s; want %s", got, c.nodes)
		}
	}
}
