package reclaim

import (
	"strings"
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/schema"
)

// in gives a claim's World an order.
func (c claim) in(order schema.Order) claim { c.WorldOrder = order; return c }

func (c claim) captured(sequence uint64) claim { c.Sequence = sequence; return c }

func ordered(h checkpoint.Head, order schema.Order) checkpoint.Head { h.Order = order; return h }

// The store was set back to checkpoint 1 while all nodes were away. Before that, the job had
// committed 2, 3 and 4. Then a went on from 1 alone, and committed another 2. Then the store was lost.
func TestDecideOfTwoHistories(t *testing.T) {
	one := ordered(saved(1, 1, "a", "b"), 10)
	was := []checkpoint.Head{one, ordered(saved(2, 2, "b", "c"), 20), ordered(saved(3, 3, "b", "c"), 30),
		ordered(saved(4, 4, "b", "c"), 40)}
	now := []checkpoint.Head{one, ordered(saved(2, 22, "a"), 60)}
	for _, c := range []struct {
		what   string
		claims []claim
		want   string
	}{
		{"the commit that was made last counts, and not the larger number",
			[]claim{says("a", 5, "a", now...).in(50), says("b", 4, "b c", was...).in(15)},
			"remake: fence 5, 5 was 2 on a, and 1"},
		{"nor the larger generation",
			[]claim{says("a", 5, "a", now...).in(50), says("b", 9, "b c", was...).in(15)},
			"remake: fence 9, 5 was 2 on a, and 1"},
		{"a node that only heard of it waits for it",
			[]claim{says("d", 5, "a", one).in(50).knows(now[1]), says("b", 9, "b c", was...).in(15)},
			"wait for a with 2"},
		{"the members of the World that was proposed last have to come",
			[]claim{says("d", 5, "a e", now...).in(50), says("b", 9, "b c", was...).in(15),
				says("a", 5, "a e", one).in(50)}, "wait for e"},
		{"a commit of the old history counts if there was none in the new one",
			[]claim{says("a", 5, "a", one).in(50), says("b", 9, "b c", was...).in(15),
				says("c", 9, "b c", was...).in(15)}, "remake: fence 9, 5 was 4 on b c, and 1, and 2, and 3"},
		{"captures are not compared with those of another World of the same generation",
			[]claim{says("a", 2, "a", now...).in(50).captured(1), says("b", 2, "b", was...).in(15).captured(9)},
			"remake: fence 2, 5 was 2 on a, and 1"},
		{"an operator went back to the first one",
			[]claim{says("a", 4, "a b", one, ordered(saved(2, 1, "a", "b"), 60)).in(15),
				says("b", 9, "b c", was...).in(14)}, "remake: fence 9, 5 was 2 on a b"},
		{"older commits with the numbers of newer ones do not count",
			[]claim{says("a", 5, "a", append(now, ordered(saved(3, 33, "a"), 70))...).in(50),
				says("b", 9, "b c", was...).in(15)}, "remake: fence 9, 5 was 3 on a, and 1, and 2"},
		{"a World without an order is older",
			[]claim{says("a", 5, "a", now...).in(50), says("b", 9, "b c", saved(7, 7, "b")).in(0)},
			"remake: fence 9, 8 was 2 on a, and 1"},
		{"the newest commit cannot be read any more",
			[]claim{says("a", 5, "a", now...).in(50).knows(ordered(saved(3, 33, "a"), 70)),
				says("b", 9, "b c", was...).in(15)}, "remake: fence 9, 5 was 2 on a, and 1"},
	} {
		t.Run(c.what, func(t *testing.T) {
			v := decide(c.claims, "u", ForAll)
			if got := stepText(v); !strings.HasPrefix(got, c.want) || c.want[0] == 'r' && got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if v.Remake == nil {
				return
			}
			for _, x := range c.claims {
				for _, h := range append(x.Heads, x.Known) {
					if !h.Before(*v.Remake.Head) {
						t.Errorf("%+v, which %s knows, is newer than the head %+v", h, x.Node, v.Remake.Head)
					}
				}
			}
			for _, h := range v.Remake.History {
				if h.Number == 2 && v.Remake.Was.Number == 3 && h.Manifest != now[1].Manifest {
					t.Errorf("checkpoint 2 is %+v", h)
				}
			}
		})
	}
}

// Sequences count only among what the workers of one World saved. They decide about copies of which a
// node did not hear whether they were committed, and about nothing else.
func TestSequencesOfTwoHistories(t *testing.T) {
	of := func(g schema.Generation, h checkpoint.Head) checkpoint.Head { h.Generation = g; return h }
	copied := func(n checkpoint.Number, order schema.Order, g schema.Generation) checkpoint.Head {
		h := ordered(saved(n, 8), order)
		h.Generation, h.Copies = g, 0
		return h
	}
	has := func(c claim, h checkpoint.Head, sequence uint64) claim {
		c.Newest, c.Sequence = &h, sequence
		return c
	}
	was, now := of(5, ordered(saved(9, 9, "a"), 600)), of(5, ordered(saved(4, 4, "n"), 1500))
	offered := of(5, ordered(saved(3, 9, "l"), 1499))
	back := of(5, ordered(saved(5, 4, "b"), 1600))
	behind := of(5, ordered(saved(5, 7, "c"), 1501))
	back.Restored, behind.Restored = true, true
	one, two := ordered(saved(1, 1, "a", "b"), 100), ordered(saved(2, 2, "b", "x"), 200)
	for _, c := range []struct {
		what   string
		claims []claim
		wait   Wait
		want   string
	}{
		{"the generation of an older commit was given again",
			[]claim{says("a", 7, "a", was).in(50).captured(9).again(),
				says("n", 5, "n", now).in(1400).captured(2).again()}, ForAll,
			"remake: fence 7, 10 was 4 on n"},
		{"a spare has a checkpoint that it offered",
			[]claim{says("l", 5, "n", offered).in(1400).captured(9).knows(now),
				says("n", 5, "n", now).in(1400).captured(2)}, ForAll, "remake: fence 5, 5 was 4 on n, and 3"},
		{"a copy is newer than its order says, and a holder of the commit before it is gone",
			[]claim{has(says("a", 2, "a b", one).in(1), copied(2, 101, 2), 7),
				says("b", 2, "a b", one, two).in(1).captured(6)}, ForEnough,
			"remake: fence 2, 4 was 3 on a, and 1, and 2"},
		{"a copy of the newest World is newer than all commits before that World",
			[]claim{says("a", 4, "a", was).in(50).captured(9).again(),
				has(says("s", 5, "n s").in(1400), copied(1, 1401, 5), 3)}, ForEnough,
			"remake: fence 5, 10 was 1 on s, without n"},
		{"and a copy of another World of that generation is not",
			[]claim{has(says("a", 5, "a").in(50), copied(10, 601, 5), 9),
				says("n", 5, "n", now).in(1400).captured(2)}, ForAll, "remake: fence 5, 11 was 4 on n"},
		{"nor is one that its node saved after a checkpoint that the operator restored",
			[]claim{has(says("a", 5, "a b").in(1400), copied(5, 1501, 5), 9),
				says("b", 5, "a b", back).in(1400).captured(2)}, ForAll, "remake: fence 5, 6 was 5 on b"},
		{"also where another node knows of the restore",
			[]claim{has(says("a", 5, "a b").in(1400), copied(5, 1501, 5), 9),
				says("b", 5, "a b", now).in(1400).captured(2), says("s", 5, "a b").in(1400).knows(back)}, ForAll,
			"remake: fence 5, 6 was 5 on b"},
		{"also where the operator's clock was behind, and two nodes saved after it",
			[]claim{has(says("a", 5, "a b c", now).in(1400), copied(5, 1501, 5), 8),
				has(says("b", 5, "a b c", now).in(1400), copied(5, 1501, 5), 9),
				says("c", 5, "a b c", behind).in(1400).captured(1)}, ForAll, "remake: fence 5, 6 was 5 on c, and 4"},
		{"but one of a later World is",
			[]claim{has(says("a", 6, "a b").in(1700), copied(5, 1701, 6), 1),
				says("b", 5, "a b", back).in(1400).captured(2)}, ForAll, "remake: fence 6, 6 was 5 on a, and 5"},
	} {
		t.Run(c.what, func(t *testing.T) {
			for range 2 {
				if got := stepText(decide(c.claims, "u", c.wait)); got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
				c.claims[0], c.claims[1] = c.claims[1], c.claims[0]
			}
		})
	}
}

// Of two checkpoints with the number that the operator chose, the one that was committed last counts.
func TestWithoutOfTwoHistories(t *testing.T) {
	was, now := ordered(saved(2, 2, "b"), 20), ordered(saved(2, 22, "a"), 60)
	claims := []claim{says("b", 9, "b c", was).in(15), says("a", 5, "a d", now).in(50)}
	for range 2 {
		if r := Without(all(claims), 2); r == nil || r.Head.Manifest != now.Manifest {
			t.Errorf("%+v", r)
		}
		claims[0], claims[1] = claims[1], claims[0]
	}
}
