package diagnosis

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// dumpOf reads a dump of NCCL's RAS, in the form that its documentation shows.
func dumpOf(t testing.TB, name string) []byte {
	t.Helper()
	dump, err := os.ReadFile(filepath.Join("testdata", "ras-"+name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return dump
}

// The rank that NCCL's counts show, where all ranks stand in the same call of the program.
func TestNCCLNamesARank(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		rank   int // -1: none
		reason string
	}{
		"healthy": {-1, NoneStandsOut},
		"lagging": {2, "it began 1842 collectives of NCCL, others 1843"},
		"mismatch": {1, "it began are 2 Broadcast, 2 AllGather, 1839 AllReduce, and of the others 2 Broadcast, " +
			"1 AllGather, 1840 AllReduce"},
		"dead":         {3, "the service of NCCL in the other ranks says that it is dead"},
		"unresponsive": {1, "says that it is unresponsive"},
		// Two groups of all ranks: it waits in the second one, and the others in the first.
		"joined": {2, "1839 AllReduce; 2 Broadcast, 1 AllGather, 6 AllReduce, and of the others"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nccl := ParseRAS(dumpOf(t, name))
			if len(nccl) != 4 {
				t.Fatalf("%+v", nccl)
			}
			var ranks []Standstill
			for i := range nccl {
				ranks = append(ranks, Standstill{Rank: i, State: "S", Stack: inAllReduce, NCCL: &nccl[i]})
			}
			got := FindBehind(ranks)
			if got.Known != (want.rank >= 0) || got.Known && got.Rank != want.rank ||
				!strings.Contains(got.Reason, want.reason) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// Where NCCL cannot tell one rank from the others, another sign decides.
func TestNCCLMayNotTell(t *testing.T) {
	t.Parallel()
	counts := func(began ...uint64) (ranks []Standstill) {
		for i, n := range began {
			s := Standstill{Rank: i, NCCL: &NCCL{Began: n, Calls: "some", Missed: ""}}
			if n == 0 {
				s.NCCL.Missed = "dead"
			}
			ranks = append(ranks, s)
		}
		return ranks
	}
	for name, ranks := range map[string][]Standstill{
		"two are behind":    counts(7, 8, 7),
		"two are missed":    counts(0, 8, 0, 8),
		"nothing of one":    append(counts(7, 8), Standstill{Rank: 2}),
		"all began as many": counts(7, 7, 7),
	} {
		if got := FindBehind(ranks); got.Known {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// FuzzRAS has any bytes answer: what they say is of as many ranks as they claim, and never fails.
func FuzzRAS(f *testing.F) {
	for _, name := range []string{"healthy", "lagging", "dead", "mismatch"} {
		f.Add(dumpOf(f, name))
	}
	for _, hostile := range []string{"", "null", "[]", `{"communicators":{}}`, `{"communicators":[{"size":-1}]}`,
		`{"communicators":[{"size":1099511627776}]}`,
		`{"communicators":[{"size":2,"ranks":[{"rank":-1},{"rank":9}]}]}`,
		`{"communicators":[{"size":2,"ranks":[{"rank":0,"collective_counts":{"AllReduce":18446744073709551615}},` +
			`{"rank":1,"collective_counts":{"AllReduce":1}}]}]}`} {
		f.Add([]byte(hostile))
	}
	f.Fuzz(func(t *testing.T, dump []byte) {
		nccl := ParseRAS(dump)
		var ranks []Standstill
		for i := range nccl {
			ranks = append(ranks, Standstill{Rank: i, NCCL: &nccl[i]})
		}
		if len(ranks) == 0 {
			return
		}
		if b := FindBehind(ranks); b.Rank < 0 || b.Rank >= len(ranks) || len(b.Reason) > maxMessage {
			t.Errorf("%+v", b)
		}
	})
}
