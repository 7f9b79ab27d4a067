package show

import (
	"context"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/overview"
	"github.com/elasticd/elastic/internal/page"
	"github.com/elasticd/elastic/internal/top"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Top is the command that shows all jobs live on a terminal.
func Top() command.Command {
	return command.Command{Name: "top", Args: "[JOB]", Most: 1,
		Usage: "the jobs of a server, live, the worst first", Action: topAction,
		Flags: []command.Flag{command.JobFlag()}}
}

// topAction shows the jobs until the user quits. Without a terminal it lists them once.
func topAction(ctx context.Context, c *command.Call) error {
	s, name, err := target.JobServer(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	s.TellKind(ctx)
	if c.Out.Json || !c.Out.Terminal || !screen.IsTerminal(c.Stdin) {
		return listOnce(ctx, c, s)
	}
	lines := page.NodeLines(s.Store)
	p := page.New(page.Config{Source: s.Store, Health: healthOf(s), Lines: lines})
	defer p.Close()
	return top.Run(ctx, top.Config{Page: p, Lines: lines, Job: name, In: c.Stdin, Out: c.Stdout,
		Colour: c.Out.Colour,
		Stop:   func(ctx context.Context, job schema.Job) error { return askToStop(ctx, s, job) }})
}

// askToStop asks a job to save and end.
func askToStop(ctx context.Context, s *target.Server, job schema.Job) error {
	for {
		snap, err := target.ReadJob(ctx, s, job)
		if err != nil || target.Ended(&snap) || snap.Wish.Stop == snap.Job.Attempt {
			return err
		}
		wish := snap.Wish
		wish.Stop, wish.Grace, wish.By = snap.Job.Attempt, 0, "stop"
		_, err = txn.Requests{Store: s, Job: job}.SetWish(ctx, &snap, wish)
		if err == nil || !store.Moved(err) {
			return err
		}
	}
}

// listOnce lists the jobs, the worst first.
func listOnce(ctx context.Context, c *command.Call, s *target.Server) error {
	snaps, broken, err := target.ReadJobs(ctx, s)
	if err != nil {
		return err
	}
	target.Skipped(c, broken)
	all := []overview.Summary{}
	for i := range snaps {
		all = append(all, overview.Summarise(overview.Source{Snapshot: &snaps[i], Now: c.Out.Now()}))
	}
	overview.WorstFirst(all)
	if c.Out.Json {
		return c.Out.Object(all)
	}
	rows := [][]string{{"JOB", "STATE", "WHY", ""}}
	for _, j := range all {
		rows = append(rows, []string{string(j.Job), j.State, j.Why, j.Command})
	}
	return c.Out.Table(rows)
}
