package rendezvous_test

import (
	"strings"
	"testing"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// The first failure of a generation keeps its output, of which the end is enough. Those of four
// generations stay, and a job that was removed gets none.
func TestKeepOutput(t *testing.T) {
	s := memory.New().Client("a")
	r := txn.Requests{Store: s, Job: "x"}
	fence := func(g schema.Generation) {
		t.Helper()
		put := store.Put(r.Job.Fence(), []byte(schema.FenceValue("u", g)))
		if _, err := s.Txn(t.Context(), store.Txn{Then: []store.Write{put}}); err != nil {
			t.Fatal(err)
		}
	}
	keep := func(g schema.Generation, rank int, text string) {
		t.Helper()
		w := rendezvous.World{UID: "u", Generation: g}
		if err := r.KeepOutput(t.Context(), &w, rendezvous.Output{Node: "a", Rank: rank, Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	kept := func(g schema.Generation) *rendezvous.Output {
		t.Helper()
		o, err := rendezvous.ReadOutput(t.Context(), s, "x", g)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	keep(1, 0, "no job")
	for g := schema.Generation(1); g <= 6; g++ {
		fence(g)
		if g > 3 {
			fence(g + 1) // the next generation may be proposed by then
		}
		keep(g, 1, strings.Repeat("é", 20<<10)+"end")
		keep(g, 2, "later")
	}
	for g := schema.Generation(1); g <= 6; g++ {
		o := kept(g)
		if (o != nil) != (g > 2) {
			t.Fatalf("generation %d: %v", g, o)
		}
		if o != nil && (o.Rank != 1 || len(o.Text) > 16<<10 || !strings.HasSuffix(o.Text, "éend") ||
			strings.Contains(o.Text, "\uFFFD")) {
			t.Errorf("generation %d: rank %d, %d bytes", g, o.Rank, len(o.Text))
		}
	}
	if _, err := s.Txn(t.Context(), store.Txn{Then: []store.Write{
		store.DeleteRange(r.Job.Prefix(), store.End(r.Job.Prefix()))}}); err != nil {
		t.Fatal(err)
	}
	keep(7, 1, "the job was removed")
	if o := kept(7); o != nil {
		t.Errorf("%+v", o)
	}
}
