package diagnosis

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The dumps are those of torch 2.15 with gloo: rank 1 called a barrier where the others called an
// all_reduce.
func TestParseFlight(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Collective{
		"flight-0.json": {3, "gloo:all_reduce"}, "flight-0.pickle": {3, "gloo:all_reduce"},
		"flight-1.json": {3, "gloo:barrier"}, "flight-1.pickle": {3, "gloo:barrier"},
	} {
		dump := readDump(t, name)
		if got, ok := ParseFlight(dump); !ok || got != want {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
		for i := range dump { // one that breaks off anywhere, or is damaged, is read or refused
			ParseFlight(dump[:i])
			damaged := append([]byte{}, dump...)
			damaged[i] ^= 0xa5
			ParseFlight(damaged)
		}
	}
	for _, dump := range []string{"", "{}", "\x80\x02.", "\x80\x02}.", "\x80\x02N.",
		`{"entries":[1,{"process_group":7}]}`, "\x80\x02(((((((", "\x80\x02]q\x00h\x00a."} {
		if got, ok := ParseFlight([]byte(dump)); ok {
			t.Errorf("%q: %+v", dump, got)
		}
	}
}

func readDump(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFindBehindByCollectives(t *testing.T) {
	t.Parallel()
	reduce := func(seq int64) *Collective { return &Collective{seq, "nccl:all_reduce"} }
	for name, test := range map[string]struct {
		of     []*Collective // by rank
		rank   int
		reason string
	}{
		"one began fewer": {[]*Collective{reduce(9), reduce(9), reduce(8), reduce(9)}, 2,
			"it began 8 collectives, and others wait in the 1st after that, nccl:all_reduce"},
		"one is in another one": {[]*Collective{reduce(9), {9, "nccl:barrier"}, reduce(9)}, 1,
			"it waits in collective 9, nccl:barrier, which is nccl:all_reduce for the others"},
		"two began fewer":     {[]*Collective{reduce(9), reduce(8), reduce(8)}, 0, "no rank stands out"},
		"all are in the same": {[]*Collective{reduce(9), reduce(9)}, 0, "no rank stands out"},
		"one is not known":    {[]*Collective{reduce(9), nil, reduce(8)}, 0, "no rank stands out"},
	} {
		var ranks []Standstill
		for rank, c := range test.of {
			ranks = append(ranks, Standstill{Rank: rank, State: "S", Collective: c})
		}
		if got := FindBehind(ranks); got.Rank != test.rank || !strings.Contains(got.Reason, test.reason) {
			t.Errorf("%s: rank %d: %s", name, got.Rank, got.Reason)
		}
	}
}

func FuzzFlight(f *testing.F) {
	for _, name := range []string{"flight-0.json", "flight-1.pickle"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, dump []byte) {
		if c, ok := ParseFlight(dump); ok && c.Seq <= 0 {
			t.Errorf("%+v", c)
		}
	})
}
