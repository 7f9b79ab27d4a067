package show

import (
	"context"
	"fmt"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

// Nodes is the command that lists the nodes of a job.
func Nodes() command.Command {
	return command.Command{Name: "nodes", Args: "[JOB]", Most: 1, Usage: "the nodes of a job",
		Action: nodesAction, Flags: []command.Flag{command.JobFlag(),
			{Name: "all", Kind: command.Boolean,
				Usage: "what is known of each machine, from all jobs: it counts half as much after an hour"},
			{Name: "scontrol", Kind: command.Boolean,
				Usage: "with --all: lines for Slurm that drain the bad machines"}}}
}

func nodesAction(ctx context.Context, c *command.Call) error {
	if c.Truth("all") {
		return allMachines(ctx, c)
	}
	s, snap, err := target.OpenJob(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	st := s.Explain(&snap, c.Out.Now())
	if c.Out.Json {
		return c.Out.Object(st.Nodes)
	}
	return nodeTable(c, st)
}

func nodeTable(c *command.Call, st status.Status) error {
	ranks := map[string]string{}
	for _, seat := range st.World {
		ranks[seat.Node] = span(seat.Ranks)
	}
	rows := [][]string{{"NODE", "RANKS", "STATE", "ADDRESS", "SINCE", ""}}
	for _, n := range st.Nodes {
		row := []string{n.Node, "-", string(n.State), "-", c.Out.Since(n.Since.Time), ""}
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
	return c.Out.Table(rows)
}

// span formats consecutive ranks in short form.
func span(ranks []int) string {
	switch len(ranks) {
	case 0:
		return "-"
	case 1:
		return fmt.Sprint(ranks[0])
	}
	return fmt.Sprintf("%d-%d", ranks[0], ranks[len(ranks)-1])
}
