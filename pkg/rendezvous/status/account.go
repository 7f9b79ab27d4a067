package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// Account explains the state of a job at length: the nodes that hold it up, the newest failure, and
// where the time of the newest start went. st is the result of Explain for s.
func Account(s *rendezvous.Snapshot, st Status) []string {
	lines := []string{fmt.Sprintf("job %s is %s: %s", st.Job, st.State, st.Why)}
	lines = append(lines, missingNodes(s, st)...)
	if st.State == StateStarting {
		lines = append(lines, notReady(s, st)...)
	}
	if f := st.Failure; f != nil {
		lines = append(lines, fmt.Sprintf("newest failure, in generation %d: %s", f.Generation, f.Text))
		record := rendezvous.Failure{Message: f.Message, Detail: f.Detail, Others: f.Others}
		for _, line := range record.Lines() {
			lines = append(lines, "  "+line)
		}
	}
	if st.Waterfall != nil {
		lines = append(lines, startLines(st)...)
	}
	if st.Next != nil {
		lines = append(lines, "next: "+*st.Next)
	}
	return lines
}

// missingNodes returns a line for each node that is gone, in doubt, or kept out.
func missingNodes(s *rendezvous.Snapshot, st Status) (lines []string) {
	for _, n := range st.Nodes {
		switch why := ""; n.State {
		case NodeLost, NodeLeft, NodeSuspect:
			if n.Why != nil {
				why = ": " + *n.Why
			}
			state := "is " + string(n.State)
			if n.State == NodeLeft {
				state = "left"
			}
			lines = append(lines, fmt.Sprintf("node %s %s%s", n.Node, state, why))
		}
	}
	for _, e := range s.Events {
		if e.Kind == history.NodeLost && history.Field[string](&e, "reason") == "not-ready" &&
			e.Generation+1 >= st.Generation {
			lines = append(lines,
				fmt.Sprintf("node %s joined, but was not ready for generation %d in time",
					e.Node, e.Generation))
		}
	}
	if s.World != nil {
		for _, q := range s.World.Quarantine {
			if q.Until > s.World.Generation {
				lines = append(lines,
					fmt.Sprintf("node %s is left out until generation %d", q.Node, q.Until))
			}
		}
	}
	return lines
}

// notReady returns a line for each member that the barrier waits for, with what it does.
func notReady(s *rendezvous.Snapshot, st Status) (lines []string) {
	for _, m := range s.World.Members {
		if r, ok := s.Ready[m.Node]; ok && r.Incarnation == m.Incarnation {
			continue
		}
		doing := "it is stopping older workers or choosing ports"
		i := slices.IndexFunc(st.Doing, func(d Activity) bool { return d.Node == m.Node })
		if i >= 0 {
			doing = "it is " + st.Doing[i].What
		}
		if i >= 0 && st.Doing[i].Text != "" {
			doing += ": " + st.Doing[i].Text
		}
		lines = append(lines,
			fmt.Sprintf("node %s is not ready for generation %d yet: %s", m.Node, st.Generation, doing))
	}
	return lines
}

// startLines returns the times of the newest start, in order.
func startLines(st Status) []string {
	f := st.Waterfall
	lines := []string{fmt.Sprintf("the start of generation %d, in seconds since its first sign (%s), as "+
		"seen on %s:",
		st.Generation, f.Sign, f.By)}
	var last int64
	type moment struct {
		what string
		at   *int64
	}
	moments := []moment{{"decided", f.Decided}, {"enough nodes", f.Enough}, {"proposed", f.Proposed},
		{"workers stopped", f.Stopped},
		{"barrier full, " + f.Last + " was the last", f.Barrier}, {"workers started", f.Started}}
	moments = slices.DeleteFunc(moments, func(m moment) bool { return m.at == nil })
	slices.SortStableFunc(moments, func(a, b moment) int { return cmp.Compare(*a.at, *b.at) })
	for _, m := range moments {
		bar := strings.Repeat("#", int(min(40, max(0, *m.at-last)/25)))
		lines = append(lines,
			strings.TrimRight(fmt.Sprintf("  %7.3f  %-32s %s", float64(*m.at)/1000, m.what, bar), " "))
		last = max(last, *m.at)
	}
	return lines
}
