package cli

import (
	"context"
	"strings"

	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

func explainCommand() command {
	return command{name: "explain", args: "[JOB]", most: 1, usage: "why a job is where it is, at length", action: explainAction,
		flags: []flag{jobFlag()}}
}

func explainAction(ctx context.Context, c *call) error {
	s, name, err := c.jobServer(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	snap, err := c.job(ctx, s, name, true)
	if err != nil {
		return err
	}
	lines := status.Account(&snap, s.explain(&snap, c.out.now()))
	if c.out.json {
		return c.out.object(map[string]any{"job": snap.Job.Name, "lines": lines})
	}
	for _, line := range lines {
		if err := c.out.line("%s", strings.ReplaceAll(line, "\t", "    ")); err != nil {
			return err
		}
	}
	return nil
}
