package show

import (
	"context"
	"strings"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

// Explain is the command that explains the status of a job in detail.
func Explain() command.Command {
	return command.Command{Name: "explain", Args: "[JOB]", Most: 1,
		Usage: "the status of a job, with reasons, in detail", Action: explainAction,
		Flags: []command.Flag{command.JobFlag(), {Name: "stacks", Kind: command.Boolean, Once: true,
			Usage: "ask all ranks what they do now, without changing them"}}}
}

func explainAction(ctx context.Context, c *command.Call) error {
	s, snap, err := target.OpenJob(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	if c.Truth("stacks") {
		return stacks(ctx, c, s, &snap)
	}
	s.TellKind(ctx)
	s.TellSilent(ctx)
	st := s.Explain(&snap, c.Out.Now())
	lines := status.Account(&snap, st)
	if c.Out.Json {
		return c.Out.Object(map[string]any{"job": snap.Job.Name, "lines": lines, "status": st})
	}
	next := st.Next
	st.Next = nil // it comes last
	if err := showStatus(c, st); err != nil {
		return err
	}
	if next != nil {
		lines = lines[:len(lines)-1]
	}
	for _, line := range lines[1:] { // the first is the status
		if err := c.Out.Folded(4, "%s", strings.ReplaceAll(line, "\t", "    ")); err != nil {
			return err
		}
	}
	if next != nil {
		return c.Out.Folded(6, "next: %s", *next)
	}
	return nil
}
