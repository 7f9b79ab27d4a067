package diagnosis

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Collective is the last collective that a rank started in the group of all ranks.
type Collective struct {
	Seq  int64  // number of collectives that it started
	Name string // "gloo:all_reduce"
}

// ParseFlight reads a dump of torch's flight recorder, as JSON or as a pickle. It returns false if
// the dump has no collective of all ranks.
func ParseFlight(dump []byte) (Collective, bool) {
	var parsed any
	if len(dump) > 0 && dump[0] == '{' {
		if json.Unmarshal(dump, &parsed) != nil {
			return Collective{}, false
		}
	} else {
		var err error
		if parsed, err = unpickle(dump); err != nil {
			return Collective{}, false
		}
	}
	top, _ := parsed.(map[string]any)
	entries, _ := top["entries"].([]any)
	if l, ok := top["entries"].(*list); ok {
		entries = l.values
	}
	last := Collective{}
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		group, _ := entry["process_group"].([]any)
		p2p, _ := entry["is_p2p"].(bool)
		name, _ := entry["profiling_name"].(string)
		seq := number(entry["collective_seq_id"])
		if p2p || len(group) != 2 || group[1] != "default_pg" || seq < last.Seq {
			continue
		}
		last = Collective{seq, name}
	}
	return last, last.Seq > 0
}

// number converts a number from JSON or a pickle; 0 for other values.
func number(v any) int64 {
	switch v := v.(type) {
	case float64:
		return int64(v)
	case int64:
		return v
	}
	return 0
}

// lowestCollective finds the single rank that started fewer collectives than the others. If all
// started as many, it finds the one whose last collective differs from that of most.
func lowestCollective(ranks []Standstill) (int, string) {
	least, most, alone := fewest(ranks, func(r Standstill) (int64, bool) {
		if r.Collective == nil {
			return 0, false
		}
		return r.Collective.Seq, true
	})
	if least < 0 {
		return -1, ""
	}
	if low, high := ranks[least].Collective, ranks[most].Collective; low.Seq < high.Seq {
		if !alone {
			return -1, "" // several ranks are behind: another sign must decide
		}
		reason := fmt.Sprintf("it began %d collectives, and others wait in the %s after that, %s",
			low.Seq, ordinal(high.Seq-low.Seq), high.Name)
		if at := topOfStack(mainThread(ranks[least].Stack)); at != "" {
			reason += "; it stands in " + at
		}
		return least, reason
	}
	return findDifferent(ranks, func(r Standstill) string {
		return fmt.Sprintf("collective %d, %s", r.Collective.Seq, r.Collective.Name)
	},
		func(mine, theirs string) string {
			_, name, _ := strings.Cut(theirs, ", ")
			return fmt.Sprintf("it waits in %s, which is %s for the others", mine, name)
		})
}

// fewest returns the rank that began the fewest collectives, and one that began the most. least is -1
// where the number of a rank is not known. alone reports whether no other rank began as few.
func fewest(ranks []Standstill, began func(Standstill) (int64, bool)) (least, most int, alone bool) {
	var low, high int64
	least, most = -1, -1
	for i, r := range ranks {
		n, known := began(r)
		switch {
		case !known:
			return -1, -1, false
		case i == 0 || n < low:
			least, low, alone = i, n, true
		case n == low:
			alone = false
		}
		if i == 0 || n > high {
			most, high = i, n
		}
	}
	return least, most, alone
}

// ordinal formats n as 1st, 2nd and so on.
func ordinal(n int64) string {
	switch {
	case n%100 >= 11 && n%100 <= 13:
	case n%10 == 1:
		return fmt.Sprintf("%dst", n)
	case n%10 == 2:
		return fmt.Sprintf("%dnd", n)
	case n%10 == 3:
		return fmt.Sprintf("%drd", n)
	}
	return fmt.Sprintf("%dth", n)
}
