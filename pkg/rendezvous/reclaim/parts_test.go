package reclaim

import (
	"slices"
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint"
)

// inParts is a checkpoint of three parts, of which a and b, b and c, c and a have one each.
func inParts(n checkpoint.Number) checkpoint.Head {
	h := saved(n, byte(n), "a", "b", "c")
	h.Copies = 2
	for i, names := range [][]string{{"a", "b"}, {"b", "c"}, {"c", "a"}} {
		h.Parts = append(h.Parts, checkpoint.HeldPart{Manifest: partOf(n, i), Holders: names})
	}
	return h
}

func partOf(n checkpoint.Number, i int) checkpoint.Hash { return checkpoint.Hash{byte(n), byte(i + 1)} }

// found has parts of a checkpoint on the disk of the node.
func (c claim) found(h checkpoint.Head, parts ...int) claim {
	f := checkpoint.FoundParts{Head: h}
	for _, i := range parts {
		f.Parts = append(f.Parts, partOf(h.Number, i))
	}
	c.Parts, c.Known = append(c.Parts, f), h
	return c
}

// has is found for a commit of which the node has not heard.
func (c claim) has(h checkpoint.Head, parts ...int) claim {
	o := checkpoint.OtherParts{Manifest: h.Manifest}
	for _, i := range parts {
		o.Parts = append(o.Parts, partOf(h.Number, i))
	}
	c.OtherParts = append(c.OtherParts, o)
	return c
}

// hasCapture is has for a capture of the newest World.
func (c claim) hasCapture(h checkpoint.Head, sequence uint64, parts ...int) claim {
	c = c.has(h, parts...)
	h.Generation, h.Copies, h.Holders = c.World, 0, nil
	h.Parts = slices.Clone(h.Parts)
	for i := range h.Parts {
		h.Parts[i].Holders = nil
	}
	h.Number, h.Order = c.Known.Number+1, max(c.Known.Order, c.WorldOrder).After()
	o := &c.OtherParts[len(c.OtherParts)-1]
	o.Captured, o.Sequence = &h, sequence
	return c
}

// foundCapture is found for a commit of the newest World, with its place among the captures.
func (c claim) foundCapture(h checkpoint.Head, sequence uint64, parts ...int) claim {
	h.Generation = c.World
	c = c.found(h, parts...)
	c.Parts[len(c.Parts)-1].Sequence = sequence
	return c
}

// A checkpoint in parts is there if the claimants together have all parts.
func TestDecideOfParts(t *testing.T) {
	one, two, three := saved(1, 1, "a", "b"), inParts(2), inParts(3)
	later, whole := ordered(saved(9, 9, "c"), 295), saved(2, 2, "a")
	back := ordered(saved(3, 1, "a", "b", "c"), 201)
	back.Restored = true
	for _, c := range []struct {
		what   string
		claims []claim
		wait   Wait
		want   string
		copies int
	}{
		{"every node",
			[]claim{says("a", 3, "a b c", one).found(two, 0, 2), says("b", 3, "a b c", one).found(two, 0, 1),
				says("c", 3, "a b c").found(two, 1, 2)}, ForAll,
			"remake: fence 3, 3 was 2 on a b c, and 1", 2},
		{"one is lost",
			[]claim{says("a", 3, "a b c", one).found(two, 0, 2), says("b", 3, "a b c").found(two, 0, 1)},
			ForEnough, "remake: fence 3, 3 was 2 on a b, and 1, without c", 1},
		{"one is late",
			[]claim{says("a", 3, "a b c", one).found(two, 0, 2), says("b", 3, "a b c").found(two, 0, 1)},
			ForAll, "wait for c", 0},
		{"two are away", []claim{says("a", 3, "a b c", one).found(two, 0, 2)}, ForEnough,
			"wait for b c with 2", 0},
		{"a part is damaged wherever it is",
			[]claim{says("a", 3, "a b c", one).found(two, 0), says("b", 3, "a b c").found(two, 0, 1),
				says("c", 3, "a b c").found(two, 1)}, ForAll, "remake: fence 3, 3 was 1 on a", 1},
		{"one copy is damaged",
			[]claim{says("a", 3, "a b c").found(two, 2), says("b", 3, "a b c").found(two, 0, 1),
				says("c", 3, "a b c").found(two, 1, 2)}, ForAll, "remake: fence 3, 3 was 2 on a b c", 1},
		{"one has all of it", []claim{says("a", 3, "a b c", two), says("b", 3, "a b c").found(two, 0, 1),
			says("c", 3, "a b c").found(two, 1)}, ForAll, "remake: fence 3, 3 was 2 on a b c", 1},
		{"one has heard of the commit", []claim{says("a", 3, "a b c", one).found(two, 0, 2),
			says("b", 3, "a b c", one).has(two, 0, 1),
			says("c", 3, "a b c").has(two, 1, 2)}, ForAll, "remake: fence 3, 3 was 2 on a b c, and 1", 2},
		{"no node has heard of it, and it is of an older World", []claim{says("a", 3, "a b c", one).has(two, 0, 2),
			says("b", 3, "a b c", one).has(two, 0, 1),
			says("c", 3, "a b c").has(two, 1, 2)}, ForAll, "remake: fence 3, 2 was 1 on a b", 2},
		{"no node has heard of it, and it is a capture of the newest World",
			[]claim{says("a", 3, "a b c", one).hasCapture(two, 7, 0, 2),
				says("b", 3, "a b c", one).hasCapture(two, 7, 0, 1), says("c", 3, "a b c").hasCapture(two, 7, 1, 2)},
			ForAll, "remake: fence 3, 3 was 2 on a b c, and 1", 2},
		{"and a part of it is missing",
			[]claim{says("a", 3, "a b c", one).hasCapture(two, 7, 0), says("b", 3, "a b c", one).hasCapture(two, 7, 0),
				says("c", 3, "a b c").hasCapture(two, 7, 2)},
			ForAll, "remake: fence 3, 2 was 1 on a b", 2},
		{"and one node knows of no such World",
			[]claim{says("a", 3, "a b c", one).hasCapture(two, 7, 0, 2),
				says("b", 3, "a b c", one).hasCapture(two, 7, 0), says("c", 2, "a b c").has(two, 1, 2)},
			ForAll, "remake: fence 3, 3 was 2 on a b c, and 1", 1},
		{"and one node has heard of an earlier commit of that World",
			[]claim{says("a", 3, "a b c", one).foundCapture(two, 6, 0, 2).hasCapture(three, 7, 0, 2),
				says("b", 3, "a b c", one).hasCapture(two, 6, 0, 1).hasCapture(three, 7, 0, 1),
				says("c", 3, "a b c", one).hasCapture(two, 6, 1, 2).hasCapture(three, 7, 1, 2)},
			ForAll, "remake: fence 3, 4 was 3 on a b c, and 1, and 2", 2},
		{"and one node has heard of a later commit of that World",
			[]claim{says("a", 3, "a b c", one).foundCapture(two, 8, 0, 2),
				says("b", 3, "a b c", one).hasCapture(two, 8, 0, 1).hasCapture(three, 7, 0, 1),
				says("c", 3, "a b c", one).hasCapture(two, 8, 1, 2).hasCapture(three, 7, 0, 1, 2)},
			ForAll, "remake: fence 3, 4 was 3 on a b c, and 1", 2},
		{"only a node without parts has heard of the commit", []claim{
			says("a", 3, "a b c", one).has(two, 0, 2), says("b", 3, "a b c", one).has(two, 0, 1),
			says("c", 3, "a b c").has(two, 1, 2), says("d", 3, "a b c").knows(two)},
			ForAll, "remake: fence 3, 3 was 2 on a b c, and 1", 2},
		{"and a node with a part knows a commit, and not the newest World",
			[]claim{says("a", 3, "a b c", one).in(300).hasCapture(two, 7, 0, 1),
				says("b", 3, "a b c", one).in(300).hasCapture(two, 7, 0, 1),
				says("c", 2, "a b c", one, later).in(90).has(two, 2)},
			ForAll, "remake: fence 3, 10 was 2 on a b c, and 1", 1},
		{"a node has all of it since its parts were brought together",
			[]claim{says("a", 3, "a b c", one, whole), says("b", 3, "a b c", one).hasCapture(two, 7, 0, 1),
				says("c", 3, "a b c", one).hasCapture(two, 7, 0)},
			ForAll, "remake: fence 3, 3 was 2 on a b c, and 1", 1},
		{"what is in parts was given up by the operator",
			[]claim{says("a", 3, "a b c", ordered(one, 200)).in(150).hasCapture(two, 6, 0, 2).
				hasCapture(three, 7, 0, 2).knows(back),
				says("b", 3, "a b c", ordered(one, 200)).in(150).hasCapture(two, 6, 0, 1).hasCapture(three, 7, 0, 1),
				says("c", 3, "a b c", ordered(one, 200)).in(150).hasCapture(two, 6, 1, 2).hasCapture(three, 7, 1, 2)},
			ForAll, "remake: fence 3, 4 was 3 on a b c", 3},
		{"a part that was not looked for again", []claim{says("a", 3, "a b c", one).found(two, 0, 2),
			says("b", 3, "a b c").found(two, 0, 1).later(func(c *claim) { c.Looked = false })},
			ForEnough, "wait for b c with 2", 0},
	} {
		v := decide(c.claims, "u", c.wait)
		if got := stepText(v); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
		if v.Remake != nil && v.Remake.Head.Copies != c.copies {
			t.Errorf("%s: %d copies, want %d: %+v", c.what, v.Remake.Head.Copies, c.copies, v.Remake.Head)
		}
	}
}

// The job was made again from checkpoint 1 without a, and is lost once more. What a knows of the earlier
// job makes no commit of parts that b and c have.
func TestPartsOfAnEarlierJob(t *testing.T) {
	one, two := saved(1, 1, "a", "b", "c"), ordered(inParts(2), 600)
	again := func(node string, parts ...int) claim {
		c := says(node, 0, "", ordered(saved(9, 1, "b", "c"), 501)).of("v", "u").has(two, parts...)
		c.Generation, c.Job.Ran, c.Job.Claimants = 3, true, []string{"b", "c"}
		return c
	}
	was := says("a", 3, "a b c", one)
	for _, a := range []claim{was.found(two, 0, 2), was.knows(two)} {
		v := decide([]claim{a, again("b", 0, 1), again("c", 1, 2)}, "v", ForEnough)
		if got := stepText(v); got != "remake: fence 3, 10 was 9 on a b c" {
			t.Errorf("%d parts on a: %s", len(a.Parts), got)
		}
	}
	b, c := again("b", 0, 1), again("c", 1, 2)
	for _, x := range []*claim{&b, &c} { // it was made again from scratch
		x.Heads, x.Newest, x.Known = nil, nil, checkpoint.Head{}
	}
	v := decide([]claim{says("a", 3, "a b c", one).found(two, 0, 2), b, c}, "v", ForEnough)
	if got := stepText(v); got != "remake: fence 3, 3 was 2 on a b c" {
		t.Errorf("no checkpoint is known but those of the earlier job: %s", got)
	}
}
