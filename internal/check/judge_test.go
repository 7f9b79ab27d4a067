package check

import (
	"slices"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
)

// ring is the transfers of nodes a, b, c…, where those from and to the slow ones come at a tenth of
// the speed.
func ring(size int, slow ...string) (edges []Edge) {
	for i := range size {
		e := Edge{From: string(rune('a' + i)), To: string(rune('a' + (i+1)%size)), Rate: 1e9 + 1e7*float64(i)}
		if slices.Contains(slow, e.From) || slices.Contains(slow, e.To) {
			e.Rate /= 10
		}
		edges = append(edges, e)
	}
	return edges
}

func TestSlow(t *testing.T) {
	t.Parallel()
	broken := ring(5, "c")
	broken[0].Err = "no way"
	oneWay := ring(4)
	oneWay[1].Rate = 1e6
	for name, test := range map[string]struct {
		edges []Edge
		want  []string
	}{
		"none":                      {ring(5), nil},
		"one of five":               {ring(5, "c"), []string{"c"}},
		"one of three":              {ring(3, "b"), []string{"b"}},
		"two neighbours of six":     {ring(6, "c", "d"), []string{"c", "d"}},
		"two nodes prove nothing":   {ring(2, "b"), nil},
		"one edge is no node":       {oneWay, nil},
		"a transfer that broke off": {broken, []string{"c"}},
		"no transfers":              {nil, nil},
		"a third of the speed is not": {[]Edge{{"a", "b", 3, ""}, {"b", "c", 1, ""}, {"c", "d", 1, ""},
			{"d", "a", 3, ""}}, nil},
	} {
		if got, _ := Slow(test.edges); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestSkewed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		offsets map[string]time.Duration
		want    []string
	}{
		"alone": {map[string]time.Duration{"": 0}, nil},
		"close": {map[string]time.Duration{"": 0, "b": time.Second, "c": -time.Second}, nil},
		"one is late": {map[string]time.Duration{"": 0, "b": time.Second, "c": -time.Minute},
			[]string{"c"}},
		"this one is late": {map[string]time.Duration{"": 0, "b": time.Minute, "c": time.Minute},
			[]string{""}},
		"of two both may be wrong": {map[string]time.Duration{"": 0, "b": time.Minute}, []string{"", "b"}},
	} {
		got := Skewed(test.offsets, 5*time.Second)
		slices.Sort(got)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func nodes(self string, names ...string) *Nodes {
	n := &Nodes{Self: self}
	for _, name := range names {
		n.Ring = append(n.Ring, membership.Ref{Node: name, Incarnation: membership.Incarnation(name + "1"),
			Address: "10.0.0.1:1"})
	}
	return n
}

// Only what is wrong with a node itself makes its check fail: else one bad node would take all
// others with it.
func TestOwnFaultsFail(t *testing.T) {
	t.Parallel()
	in, outside := nodes("a", "a", "b", "c"), nodes("", "a", "b", "c")
	for name, test := range map[string]struct {
		ways       Ways
		own, whole bool // whether it fails for a, and for a command that is no node
		says       []string
	}{
		"all is well":                 {Ways{Asked: 2}, false, false, nil},
		"another node is dead":        {Ways{Unreached: []string{"b"}, Asked: 2}, false, true, []string{"b"}},
		"the others do not reach it":  {Ways{Blind: []string{"b", "c"}, Asked: 2}, true, true, []string{"a"}},
		"a port of workers is closed": {Ways{Closed: []string{"b"}, Asked: 2}, true, true, []string{"a"}},
		"it does not reach a node": {Ways{Unreached: []string{"b"}, Cut: []string{"b"}, Asked: 2}, true, true,
			[]string{"a"}},
	} {
		if f := in.judgeWays(test.ways, "10.0.0.1:2"); f.Failed != test.own ||
			!slices.Equal(f.Nodes, test.says) {
			t.Errorf("%s: %+v", name, f)
		}
		// a command has no agent that others could reach
		if test.ways.Blind == nil && test.ways.Closed == nil {
			if f := outside.judgeWays(test.ways, ""); f.Failed != test.whole {
				t.Errorf("%s, seen by a command: %+v", name, f)
			}
		}
	}
	edges := ring(3, "b")
	if f := in.judgeTransfers(edges); f.Failed || !slices.Equal(f.Nodes, []string{"b"}) {
		t.Errorf("another node is slow: %+v", f)
	}
	if f := nodes("b", "a", "b", "c").judgeTransfers(edges); !f.Failed {
		t.Errorf("this node is slow: %+v", f)
	}
	if f := outside.judgeTransfers(edges); !f.Failed {
		t.Errorf("a node is slow, seen by a command: %+v", f)
	}
}

// In a large job each node sees to its part of the ring, and every node belongs to the part of
// another one.
func TestPartOfALargeRing(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 1000 {
		names = append(names, string(rune(1000+i)))
	}
	seen := map[int]int{}
	for _, self := range names {
		near := nodes(self, names...).near()
		if len(near) != 2*neighbours+1 {
			t.Fatalf("%d places", len(near))
		}
		for _, i := range near {
			seen[i]++
		}
	}
	for i := range names {
		if seen[i] != 2*neighbours+1 {
			t.Fatalf("place %d is in %d parts", i, seen[i])
		}
	}
}
