package overview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

// A job with more nodes than single has one row for all nodes that did the same. Moments count as
// the same within one of grid parts of the time that is shown.
const (
	single = 24
	grid   = 300
)

// rows returns the rows of the timeline.
func (w *walk) rows(st status.Status, now Millis) []Row {
	states := map[string]string{}
	for _, n := range st.Nodes {
		states[n.Node] = string(n.State)
	}
	rows := []Row{}
	at := map[string]int{}
	names := w.sortedNodes(st)
	span := w.span(now)
	for _, name := range names {
		bars := slices.Clone(w.nodes[name].bars)
		if len(bars) == 0 {
			continue
		}
		if len(names) > single {
			key := states[name] + shape(bars, span)
			if i, ok := at[key]; ok {
				rows[i].Nodes = append(rows[i].Nodes, name)
				continue
			}
			at[key] = len(rows)
		}
		rows = append(rows, Row{Nodes: []string{name}, State: states[name], Bars: bars})
	}
	if len(names) > single { // what most nodes did, then those to which most happened
		slices.SortStableFunc(rows, func(a, b Row) int {
			return cmp.Or(cmp.Compare(len(b.Nodes), len(a.Nodes)), cmp.Compare(len(b.Bars), len(a.Bars)))
		})
	}
	return rows
}

// span returns the time that all bars cover.
func (w *walk) span(now Millis) Millis {
	var from, to Millis
	for _, n := range w.nodes {
		for _, b := range n.bars {
			if from == 0 || b.From < from {
				from = b.From
			}
			to = max(to, b.To)
			if b.To == 0 {
				to = now
			}
		}
	}
	return to - from
}

// shape is the same for nodes whose bars look the same.
func shape(bars []Bar, span Millis) string {
	var b strings.Builder
	cell := max(1, span/grid)
	for _, x := range bars {
		fmt.Fprintf(&b, "|%s %d %d", x.Phase, (x.From+cell/2)/cell, x.Generation)
	}
	fmt.Fprintf(&b, "|%d", (bars[len(bars)-1].To+cell/2)/cell)
	return b.String()
}
