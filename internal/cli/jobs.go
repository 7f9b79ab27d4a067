package cli

import (
	"context"
	"fmt"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

func jobsCommand() command {
	return command{name: "jobs", usage: "the jobs of a server", action: jobsAction}
}

func jobsAction(ctx context.Context, c *call) error {
	s, err := c.server(ctx, ask, 0)
	if err != nil {
		return err
	}
	defer s.Close()
	s.tellKind(ctx)
	snaps, err := readJobs(ctx, s)
	if err != nil {
		return err
	}
	all := []rendezvous.Status{}
	rows := [][]string{{"JOB", "STATE", "NODES", "GENERATION", "CHECKPOINT", "SINCE", ""}}
	for i := range snaps {
		st := s.explain(&snaps[i], c.out.now())
		all = append(all, st)
		checkpoint := "-"
		if st.Checkpoint != nil {
			checkpoint = fmt.Sprint(st.Checkpoint.Number)
		}
		rows = append(rows, []string{string(st.Job), string(st.State), fmt.Sprintf("%d/%d", st.Wish.Present, st.Wish.NP),
			fmt.Sprint(st.Generation), checkpoint, c.out.since(st.Since.Time), st.Why})
	}
	if c.out.json {
		return c.out.object(all)
	}
	return c.out.table(rows)
}
