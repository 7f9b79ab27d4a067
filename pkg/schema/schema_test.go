package schema_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

func TestValidName(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "train-7f3a": true, "A.b_c-9": true, "0": true, strings.Repeat("x", 64): true,
		"": false, strings.Repeat("x", 65): false, "-a": false, ".": false, "..": false, "_a": false,
		"a/b": false,
		"a b": false, "a\n": false, "é": false, "a\x00": false, "a*": false,
	} {
		if got := schema.ValidName(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}

var someName = rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,63}`).Filter(schema.ValidName)

const newest = uint64(schema.MaxGeneration)

func draw(t *rapid.T) (schema.Job, string, schema.Generation) {
	return schema.Job(someName.Draw(t, "job")), someName.Draw(t, "node"),
		schema.Generation(rapid.Uint64Range(0, newest).Draw(t, "generation"))
}

// all is one key of each kind.
func all(j schema.Job, n string, g schema.Generation) []string {
	return []string{
		j.Job(), j.Fence(), j.World(), j.Wish(), j.Plan(n, int(g%10000)), j.Endpoints(n), j.Node(n),
		j.Held(n), j.Left(n), j.Doing(n), j.Progress(), j.Brought(n), j.Event(n), j.Suspect(n, n),
		j.Ready(g, n), j.Exit(g, n), j.Failure(g), j.NaN(g), j.Output(g), j.Checkpoint(uint64(g)), j.Head(),
	}
}

// prefixes is one range of each kind.
func prefixes(j schema.Job, n string, g schema.Generation) []string {
	return []string{
		j.AllPlans(), j.Plans(n), j.Nodes(), j.AllHeld(), j.AllLeft(), j.AllDoing(),
		j.AllBrought(), j.Events(), j.AllSuspects(), j.Suspects(n), j.AllReady(), j.Readies(g), j.AllExits(),
		j.Exits(g), j.AllFailures(), j.AllNaNs(), j.AllOutputs(), j.Checkpoints(),
	}
}

func within(prefix, key string) bool { return prefix <= key && key < store.End(prefix) }

// A job sees its own keys and no other's, whatever the two are called.
func TestJobsAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, node, g := draw(t)
		b := schema.Job(rapid.OneOf(someName, rapid.Just(string(a)+"-2"), rapid.Just(string(a)+"."),
			rapid.Just(string(a)+"0")).Draw(t, "other"))
		mine := all(a, node, g)
		for _, k := range mine {
			if !within(a.Prefix(), k) {
				t.Fatalf("%s is not below %s", k, a.Prefix())
			}
			if a != b && within(b.Prefix(), k) {
				t.Fatalf("%s is below %s", k, b.Prefix())
			}
		}
		slices.Sort(mine)
		if same := slices.Compact(slices.Clone(mine)); len(same) != len(mine) {
			t.Fatalf("two kinds share a key: %q", mine)
		}
	})
}

// A range holds the keys that begin with its prefix, no more and no fewer.
func TestRangesAreTheirPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j, n, g := draw(t)
		_, n2, g2 := draw(t)
		for _, p := range prefixes(j, n, g) {
			if !strings.HasSuffix(p, "/") {
				t.Fatalf("prefix %s does not end in /", p)
			}
			for _, k := range append(all(j, n, g), all(j, n2, g2)...) {
				if within(p, k) != strings.HasPrefix(k, p) {
					t.Fatalf("%s in the range of %s: %v", k, p, within(p, k))
				}
			}
		}
	})
}

func TestBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j, n, g := draw(t)
		_, _, limit := draw(t)
		limit = rapid.SampledFrom([]schema.Generation{g, min(g+1, schema.MaxGeneration), max(g, 1) - 1, limit}).
			Draw(t, "limit")
		for prefix, key := range map[string]string{
			j.AllReady(): j.Ready(g, n), j.AllExits(): j.Exit(g, n), j.AllFailures(): j.Failure(g),
			j.AllNaNs(): j.NaN(g), j.AllOutputs(): j.Output(g),
		} {
			if in := prefix <= key && key < schema.Before(prefix, limit); in != (g < limit) {
				t.Fatalf("%s before %d: %v", key, limit, in)
			}
		}
	})
}

func TestParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j, n, g := draw(t)
		parts := schema.Rest(j.AllReady(), j.Ready(g, n))
		if len(parts) != 2 || parts[1] != n {
			t.Fatalf("%q, want generation and %s", parts, n)
		}
		if got, err := schema.ParseGeneration(parts[0]); err != nil || got != g {
			t.Fatalf("generation %d, %v; want %d", got, err, g)
		}
		if schema.Rest(j.Nodes(), j.Ready(g, n)) != nil || schema.Rest(j.Nodes(), j.Nodes()) != nil {
			t.Fatal("a key of another kind has parts")
		}
	})
}

func TestFence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u, g := schema.UID(rapid.StringMatching(`[0-9a-f]{1,32}`).Draw(t, "uid")),
			schema.Generation(rapid.Uint64Range(0, uint64(schema.MaxGeneration)).Draw(t, "generation"))
		gotU, gotG, err := schema.ParseFence([]byte(schema.FenceValue(u, g)))
		if err != nil || gotU != u || gotG != g {
			t.Fatalf("%s/%d, %v; want %s/%d", gotU, gotG, err, u, g)
		}
	})
	for _, bad := range []string{"", "x", "x/", "/y", "x/-1", "x/1/2", "/1", "../x/1",
		"x/18446744073709551615", "x/1000000000000"} {
		if _, _, err := schema.ParseFence([]byte(bad)); err == nil {
			t.Errorf("fence %q was read", bad)
		}
	}
}
