package diagnosis

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Collective is the last collective that a rank began in the group of all ranks.
type Collective struct {
	Seq  int64  // it began so many
	Name string // "gloo:all_reduce"
}

// ParseFlight reads a dump of torch's flight recorder, as JSON or as its pickle. false: no
// collective of all ranks is in it.
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

// number is what JSON or a pickle has for a number; 0 for anything else.
func number(v any) int64 {
	switch v := v.(type) {
	case float64:
		return int64(v)
	case int64:
		return v
	}
	return 0
}

// lowestCollective finds the one rank that began fewer collectives than the others, or, where all
// began as many, the one whose last is another than that of most.
func lowestCollective(ranks []Standstill) (int, string) {
	least, most, alone := -1, -1, true
	for i, r := range ranks {
		if r.Collective == nil {
			return -1, ""
		}
		switch {
		case least < 0 || r.Collective.Seq < ranks[least].Collective.Seq:
			least, alone = i, true
		case r.Collective.Seq == ranks[least].Collective.Seq:
			alone = false
		}
		if most < 0 || r.Collective.Seq > ranks[most].Collective.Seq {
			most = i
		}
	}
	if least < 0 {
		return -1, ""
	}
	if low, high := ranks[least].Collective, ranks[most].Collective; low.Seq < high.Seq {
		if !alone {
			return -1, "" // several are behind: another sign has to tell them apart
		}
		reason := fmt.Sprintf("it began %d collectives, and others wait in the %s after that, %s",
			low.Seq, ordinal(high.Seq-low.Seq), high.Name)
		if at := place(mainThread(ranks[least].Stack)); at != "" {
			reason += "; it stands in " + at
		}
		return least, reason
	}
	return odd(ranks, func(r Standstill) string {
		return fmt.Sprintf("collective %d, %s", r.Collective.Seq, r.Collective.Name)
	},
		func(mine, theirs string) string {
			_, name, _ := strings.Cut(theirs, ", ")
			return fmt.Sprintf("it waits in %s, which is %s for the others", mine, name)
		})
}

// ordinal is a place in a row, in figures.
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
