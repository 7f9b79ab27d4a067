package plan

import (
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// lost is a job of nodes a, b and c in generation 3, as b knows it: its newest commit is 5, the first
// capture of the generation.
func lost() LostStore {
	w := &rendezvous.World{Generation: 3, Count: 3, Resume: &rendezvous.Resume{Number: 4}}
	for _, n := range []string{"a", "b", "c"} {
		w.Members = append(w.Members, membership.Ref{Node: n})
	}
	head := checkpoint.Head{Number: 5, Generation: 3, Manifest: checkpoint.Hash{5}}
	return LostStore{World: w, History: []checkpoint.Head{{Number: 4}, head},
		Own: Knowledge{Node: "b", Generation: 3, Turn: 20, Fence: 3, Head: head, Copies: copies(1)}}
}

// copies are the first n captures of generation 3.
func copies(n byte) (all []checkpoint.Copy) {
	for i := range n {
		all = append(all, checkpoint.Copy{Sequence: uint64(i + 1),
			Head: checkpoint.Head{Generation: 3, Manifest: checkpoint.Hash{5 + i}}})
	}
	return all
}

func TestDecide(t *testing.T) {
	knows := func(node string, change func(*Knowledge)) Knowledge {
		k := Knowledge{Node: node, Generation: 3, Turn: 20, Fence: 3}
		change(&k)
		return k
	}
	for name, c := range map[string]struct {
		others []Knowledge
		head   checkpoint.Number // 0: another node makes the job again
		fence  schema.Generation
	}{
		"alone": {nil, 5, 3},
		"another one heard of a later commit": {[]Knowledge{knows("c", func(k *Knowledge) {
			k.Head = checkpoint.Head{Number: 7, Generation: 3, Manifest: checkpoint.Hash{7}}
		})}, 7, 3},
		"another one saw a later fence":   {[]Knowledge{knows("c", func(k *Knowledge) { k.Fence = 9 })}, 5, 9},
		"another one knows a newer world": {[]Knowledge{knows("c", func(k *Knowledge) { k.Generation = 4 })}, 0, 0},
		"another one knows a newer phase": {[]Knowledge{knows("c", func(k *Knowledge) { k.Turn = 21 })}, 0, 0},
		"rank 0 is gone, and a later capture is on another one": {[]Knowledge{
			knows("c", func(k *Knowledge) { k.Copies = copies(3) })}, 6, 3},
		"rank 0 lives, and did not commit a later capture": {[]Knowledge{
			knows("a", func(k *Knowledge) { k.Copies = copies(3) })}, 5, 3},
	} {
		r := DecideRemake(lost(), c.others)
		if r == nil || c.head == 0 {
			if r != nil || c.head != 0 {
				t.Errorf("%s: %+v", name, r)
			}
			continue
		}
		if r.Head.Number != c.head || r.Fence != c.fence || len(r.History) == 0 || r.History[0].Number != 4 {
			t.Errorf("%s: head %+v, fence %d, history %+v", name, r.Head, r.Fence, r.History)
		}
	}
}

// Parts of a capture count when the nodes together have all of it, and not after the operator restored
// a checkpoint.
func TestDecideInParts(t *testing.T) {
	h := checkpoint.Head{Generation: 3, Manifest: checkpoint.Hash{6},
		Parts: []checkpoint.HeldPart{{Manifest: checkpoint.Hash{1}}, {Manifest: checkpoint.Hash{2}}}}
	part := func(node string, n byte) Knowledge {
		return Knowledge{Node: node, Generation: 3, Turn: 20,
			Copies: []checkpoint.Copy{{Head: h, Sequence: 2, Has: []checkpoint.Hash{{n}}}}}
	}
	l := lost()
	l.Own.Copies = append(l.Own.Copies, part("b", 1).Copies...)
	if r := DecideRemake(l, nil); r.Head.Number != 5 {
		t.Errorf("one part: %+v", r.Head)
	}
	r := DecideRemake(l, []Knowledge{part("c", 2)})
	if r.Head.Number != 6 || len(r.Head.Holders) != 2 || r.Head.Copies != 1 ||
		r.Head.Parts[1].Holders[0] != "c" {
		t.Errorf("both parts: %+v", r.Head)
	}
	l.Own.Head.Restored = true
	if r := DecideRemake(l, []Knowledge{part("c", 2)}); r.Head.Number != 5 {
		t.Errorf("after a restore: %+v", r.Head)
	}
}
