package show

import (
	"context"
	"fmt"
	"time"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/goodput"
	"github.com/elasticd/elastic/internal/overview"
)

// Goodput is the command that shows where the time of a job went.
func Goodput() command.Command {
	return command.Command{Name: "goodput", Args: "[JOB]", Most: 1, Usage: "where the time of a job went",
		Action: goodputAction,
		Flags:  []command.Flag{command.JobFlag()}}
}

func goodputAction(ctx context.Context, c *command.Call) error {
	s, snap, err := target.OpenJob(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	r := overview.Goodput(&snap, c.Out.Now())
	if c.Out.Json {
		return c.Out.Object(r)
	}
	return showGoodput(c, r)
}

func showGoodput(c *command.Call, r goodput.Report) error {
	rows := [][]string{{"TIME", "SECONDS", "SHARE"}}
	for _, b := range goodput.Buckets() {
		if r.Seconds[b] < 0.05 {
			continue
		}
		share := "-"
		if r.Elapsed > 0 {
			share = fmt.Sprintf("%.2f %%", 100*r.Seconds[b]/r.Elapsed)
		}
		rows = append(rows, []string{goodput.Words(b), fmt.Sprintf("%.1f", r.Seconds[b]), share})
	}
	elapsed := time.Duration(r.Elapsed * float64(time.Second)).Round(100 * time.Millisecond)
	rows = append(rows, []string{"all", fmt.Sprintf("%.1f", r.Elapsed), elapsed.String()})
	if err := c.Out.Table(rows); err != nil || len(r.Generations) == 0 {
		return err
	}
	if err := c.Out.Line(""); err != nil {
		return err
	}
	rows = [][]string{{"GENERATION", "WORLD SIZE", "FROM STEP", "TO STEP", "LOST", "SECONDS", ""}}
	for _, g := range r.Generations {
		rows = append(rows, []string{fmt.Sprint(g.Generation), fmt.Sprint(g.WorldSize), screen.Known(g.From),
			screen.Known(g.To), fmt.Sprint(g.Lost), fmt.Sprintf("%.1f", g.Seconds), g.Unsaved})
	}
	return c.Out.Table(rows)
}
