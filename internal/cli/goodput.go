package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/elasticd/elastic/internal/goodput"
)

func goodputCommand() command {
	return command{name: "goodput", args: "[JOB]", most: 1, usage: "where the time of a job went", action: goodputAction,
		flags: []flag{jobFlag()}}
}

func goodputAction(ctx context.Context, c *call) error {
	s, name, err := c.jobServer(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	snap, err := c.job(ctx, s, name, true)
	if err != nil {
		return err
	}
	now := goodput.Now{Time: c.out.now()}
	if p, w := snap.Progress, snap.World; p != nil && w != nil && p.Generation == w.Generation {
		now.Step = p.Step
	}
	r := goodput.Of(string(snap.Job.Name), snap.Events, now)
	if c.out.json {
		return c.out.object(r)
	}
	return c.showGoodput(r)
}

// bucketWords say what the time of a bucket went into.
func bucketWords(b goodput.Bucket) string {
	switch b {
	case goodput.Kept:
		return "steps that count"
	case goodput.Redone:
		return "steps made again"
	case goodput.NoSteps:
		return "workers without a step"
	case goodput.Detection:
		return "finding a loss"
	case goodput.Barrier:
		return "changing the world"
	case goodput.Saving:
		return "saving before a change"
	case goodput.Backoff:
		return "back-off"
	}
	return "waiting for nodes"
}

func (c *call) showGoodput(r goodput.Report) error {
	rows := [][]string{{"TIME", "SECONDS", "SHARE"}}
	for _, b := range goodput.Buckets() {
		share := "-"
		if r.Elapsed > 0 {
			share = fmt.Sprintf("%.2f %%", 100*r.Seconds[b]/r.Elapsed)
		}
		rows = append(rows, []string{bucketWords(b), fmt.Sprintf("%.1f", r.Seconds[b]), share})
	}
	elapsed := time.Duration(r.Elapsed * float64(time.Second)).Round(100 * time.Millisecond)
	rows = append(rows, []string{"all", fmt.Sprintf("%.1f", r.Elapsed), elapsed.String()})
	if err := c.out.table(rows); err != nil || len(r.Generations) == 0 {
		return err
	}
	if err := c.out.line(""); err != nil {
		return err
	}
	rows = [][]string{{"GENERATION", "WORLD SIZE", "FROM STEP", "TO STEP", "LOST", "SECONDS"}}
	for _, g := range r.Generations {
		rows = append(rows, []string{fmt.Sprint(g.Generation), fmt.Sprint(g.WorldSize), known(g.From), known(g.To),
			fmt.Sprint(g.Lost), fmt.Sprintf("%.1f", g.Seconds)})
	}
	return c.out.table(rows)
}
