package cli

import (
	"context"
	"fmt"

	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

func nodesCommand() command {
	return command{name: "nodes", args: "[JOB]", most: 1, usage: "the nodes of a job", action: nodesAction, flags: []flag{jobFlag()}}
}

func nodesAction(ctx context.Context, c *call) error {
	s, name, err := c.jobServer(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	snap, err := c.job(ctx, s, name, true)
	if err != nil {
		return err
	}
	st := s.explain(&snap, c.out.now())
	if c.out.json {
		return c.out.object(st.Nodes)
	}
	return c.nodeTable(st)
}

func (c *call) nodeTable(st status.Status) error {
	ranks := map[string]string{}
	for _, seat := range st.World {
		ranks[seat.Node] = span(seat.Ranks)
	}
	rows := [][]string{{"NODE", "RANKS", "STATE", "ADDRESS", "SINCE", ""}}
	for _, n := range st.Nodes {
		row := []string{n.Node, "-", string(n.State), "-", c.out.since(n.Since.Time), ""}
		if r, ok := ranks[n.Node]; ok {
			row[1] = r
		}
		if n.Address != nil {
			row[3] = *n.Address
		}
		if n.Why != nil {
			row[5] = *n.Why
		}
		rows = append(rows, row)
	}
	return c.out.table(rows)
}

// span shortens ranks, which follow on each other.
func span(ranks []int) string {
	switch len(ranks) {
	case 0:
		return "-"
	case 1:
		return fmt.Sprint(ranks[0])
	}
	return fmt.Sprintf("%d-%d", ranks[0], ranks[len(ranks)-1])
}
