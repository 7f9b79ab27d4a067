package scaling_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/pkg/scaling"
)

func tableBase(t *testing.T, text string, nodes, slots int) scaling.Base {
	t.Helper()
	rows, err := scaling.ParseTable(text)
	if err != nil {
		t.Fatal(err)
	}
	return scaling.Base{Policy: scaling.FromTable, Table: rows, Nodes: nodes, Slots: slots}
}

func TestTable(t *testing.T) {
	const text = "1:64:0.05,2:120:0.1,4:256:0.15"
	b := tableBase(t, text, 2, 2)
	for world, want := range map[int]scaling.Plan{
		2: {GlobalBatch: 64, BatchSizes: []int{32, 32}, LR: .05, LRScale: .5},
		4: {GlobalBatch: 120, BatchSizes: []int{30, 30, 30, 30}, LR: .1, LRScale: 1},
		8: {GlobalBatch: 256, BatchSizes: []int{32, 32, 32, 32, 32, 32, 32, 32}, LR: .15, LRScale: 1.5},
	} {
		want.Policy, want.GradAccum = scaling.FromTable, 1
		got, err := scaling.For(b, world)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(&want, got); d != "" {
			t.Errorf("world %d (-want +got)\n%s", world, d)
		}
	}
	for _, world := range []int{1, 3, 6, 7, 16} {
		if p, err := scaling.For(b, world); !errors.Is(err, scaling.ErrPlan) || p != nil {
			t.Errorf("a world of %d workers is not in the table: %v, %v", world, p, err)
		}
	}
	if got := scaling.FormatTable(b.Table); got != text {
		t.Errorf("formatted %q, want %q", got, text)
	}
}

func TestTableRefused(t *testing.T) {
	for _, text := range []string{"", "64", "one:64", "1:many", "1:64:fast", "1:64:0.1:2", "1:64,"} {
		if _, err := scaling.ParseTable(text); !errors.Is(err, scaling.ErrPlan) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for name, b := range map[string]scaling.Base{
		"no entry for the base":    tableBase(t, "1:64,4:256", 2, 1),
		"sizes fall":               tableBase(t, "2:64,1:32", 2, 1),
		"a size twice":             tableBase(t, "2:64,2:32", 2, 1),
		"a rate for one size only": tableBase(t, "1:64:0.1,2:128", 2, 1),
		"batch below the world":    tableBase(t, "2:3", 2, 2),
		"a negative rate":          tableBase(t, "2:64:-1", 2, 1),
		"no nodes":                 tableBase(t, "0:64", 2, 1),
		"no table":                 {Policy: scaling.FromTable, Nodes: 2, Slots: 1},
		"a batch beside it": {Policy: scaling.FromTable, Nodes: 2, Slots: 1, Batch: 8,
			Table: []scaling.Row{{Nodes: 2, Batch: 8}}},
		"a table under linear": {Nodes: 2, Slots: 1, Table: []scaling.Row{{Nodes: 2, Batch: 8}}},
	} {
		if p, err := scaling.For(b, 2); !errors.Is(err, scaling.ErrPlan) || p != nil {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
}

func TestCapsRefuse(t *testing.T) {
	b := scaling.Base{Batch: 64, LR: .1, Nodes: 2, Slots: 1}
	for name, c := range map[string]struct {
		change func(*scaling.Base)
		world  int
		ok     bool
	}{
		"batch at the cap":     {func(b *scaling.Base) { b.MaxBatch = 128 }, 4, true},
		"batch beyond the cap": {func(b *scaling.Base) { b.MaxBatch = 128 }, 5, false},
		"rate beyond the cap":  {func(b *scaling.Base) { b.MaxLR = .15 }, 4, false},
		"rate below the cap":   {func(b *scaling.Base) { b.MaxLR = .15 }, 3, true},
		"world at the cap":     {func(b *scaling.Base) { b.MaxScale = 8 }, 16, true},
		"world beyond the cap": {func(b *scaling.Base) { b.MaxScale = 8 }, 17, false},
		"sqrt has it too": {func(b *scaling.Base) { b.MaxScale, b.Policy = 8, scaling.Sqrt }, 17,
			false},
		"fixed-batch needs none": {func(b *scaling.Base) { b.MaxScale, b.Policy = 8, scaling.FixedBatch }, 17,
			true},
	} {
		b := b
		c.change(&b)
		if p, err := scaling.For(b, c.world); (err == nil) != c.ok || (p != nil) != c.ok {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}
