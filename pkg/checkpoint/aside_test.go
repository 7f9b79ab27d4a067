package checkpoint

import (
	"slices"
	"testing"
)

// What a dead generation left beyond the commit is not found by the next one;
// what is whole, or was there before, is left alone.
func TestSetAside(t *testing.T) {
	z := string(zipOf(t, map[string]string{"w": "x"}))
	b := newBench(t)
	s := storeOn(t, newMem())
	b.write("step-9000/model.raw", "of another job")
	b.write("torn-before.pt", z[:30])
	must(t, s.Inventory(b.dir))

	b.watch(nil)
	b.write("tmp/model.raw", "committed")
	b.rename("tmp", "step-20")
	save := b.look(0)
	_, h, err := s.Put(t.Context(), *save)
	must(t, err)
	must(t, s.takeInventory(save.seen))
	b.write("step-30/model.raw", "never committed")
	b.write("step-10/model.raw", "older, and skipped")
	b.write("half.pt", z[:30])
	b.write("whole.pt", z)
	b.write("metrics.csv", "1,2,3")
	b.write("model.raw", "who knows")

	top := func() (names []string) {
		for _, f := range saveOf(t, b.c.dir, 1, 1).files {
			if n := topOf(f.path); !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
		return names
	}
	_, err = s.Restore(t.Context(), h, b.dir)
	must(t, err)
	want := []string{asideDir, "metrics.csv", "model.raw", "step-10", "step-20", "step-9000", "torn-before.pt", "whole.pt"}
	if got := top(); !slices.Equal(got, want) {
		t.Errorf("after restore: %v, want %v", got, want)
	}

	b.write("again.pt", z[:30])
	must(t, s.Scratch(b.dir))
	want = slices.DeleteFunc(want, func(n string) bool { return n == "step-10" })
	if got := top(); !slices.Equal(got, want) {
		t.Errorf("from scratch: %v, want %v", got, want)
	}
}
