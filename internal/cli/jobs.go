package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

func jobsCommand() command {
	return command{name: "jobs", usage: "the jobs of a server, and whose they are", action: jobsAction,
		flags: []flag{{name: "mine", kind: boolean, usage: "only those that you began"}}}
}

func jobsAction(ctx context.Context, c *call) error {
	s, err := c.server(ctx, ask, 0)
	if err != nil {
		return err
	}
	defer s.Close()
	s.tellKind(ctx)
	snaps, broken, err := readJobs(ctx, s)
	if err != nil {
		return err
	}
	c.skipped(broken)
	all := []status.Status{}
	rows := [][]string{{"JOB", "STATE", "NODES", "GENERATION", "CHECKPOINT", "AGE", "OWNER", "COMMAND"}}
	for i := range snaps {
		if c.context.Bool("mine") && snaps[i].Job.Origin.Owner != c.userName() {
			continue
		}
		st := s.explain(&snaps[i], c.out.now())
		all = append(all, st)
		rows = append(rows, c.jobRow(st))
	}
	if c.out.json {
		return c.out.object(all)
	}
	return c.out.table(rows)
}

func (c *call) jobRow(st status.Status) []string {
	state, checkpoint := string(st.State), "-"
	if st.Abandoned {
		state = "abandoned"
	}
	if st.Checkpoint != nil {
		checkpoint = fmt.Sprint(st.Checkpoint.Number)
	}
	row := []string{string(st.Job), state, fmt.Sprintf("%d/%d", st.Wish.Present, st.Wish.NP), fmt.Sprint(st.Generation), checkpoint}
	if o := st.Origin; o != nil {
		return append(row, age(c.out.now().Sub(o.Time.Time)), o.Owner+"@"+o.Host, strings.Join(o.Command, " "))
	}
	return append(row, "-", "-", "")
}

// originRow says whose job it is.
func originRow(o *status.Origin, p *printer) string {
	if o == nil {
		return ""
	}
	return fmt.Sprintf("%s on %s, %s: %s", o.Owner, o.Host, p.since(o.Time.Time), strings.Join(o.Command, " "))
}
