package rendezvous_test

import (
	"testing"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// Of all losses of a generation that are not numbers the one of the earliest step is known to all nodes,
// whichever node is first to note its own.
func TestNoteNaN(t *testing.T) {
	s := memory.New().Client("a")
	r := txn.Requests{Store: s, Job: "x"}
	put := store.Put(r.Job.Fence(), []byte(schema.FenceValue("u", 2)))
	if _, err := s.Txn(t.Context(), store.Txn{Then: []store.Write{put}}); err != nil {
		t.Fatal(err)
	}
	note := func(g schema.Generation, node string, step *int64) (rendezvous.Failure, error) {
		w := rendezvous.World{UID: "u", Generation: g}
		return r.NoteNaN(t.Context(), &w, rendezvous.Failure{Node: node, Step: step, NaN: true})
	}
	for _, c := range []struct {
		node string
		step *int64
		want string
	}{{"e", nil, "e"}, {"a", new(int64(6)), "a"}, {"b", new(int64(6)), "a"}, {"c", new(int64(5)), "c"},
		{"a", new(int64(6)), "c"}, {"d", nil, "c"}} {
		got, err := note(2, c.node, c.step)
		if err != nil || got.Node != c.want {
			t.Errorf("%s notes: the earliest is of %s (%v), want %s", c.node, got.Node, err, c.want)
		}
	}
	if _, err := note(1, "b", new(int64(1))); err == nil {
		t.Error("a loss of an older generation is noted")
	}
}
