package show

import (
	"context"
	"strings"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/hang"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// stacks asks the agents what each rank of a job does now, and prints that. No worker is changed.
func stacks(ctx context.Context, c *command.Call, s *target.Server, snap *rendezvous.Snapshot) error {
	w := snap.World
	if w == nil || w.Phase != rendezvous.Running {
		return problem.New(problem.JobEnded, "no worker of job %s runs now", snap.Job.Name).
			Because("a stack is that of a process").Cure("elastic explain %s", snap.Job.Name)
	}
	secret, err := rendezvous.ReadSecret(ctx, s, snap.Job.Name, snap.Job.UID)
	if err != nil {
		return err
	}
	to, hangUp, err := node.Dial(secret, snap.Job.Name, snap.Job.UID)
	if err != nil {
		return err
	}
	defer hangUp()
	watch := hang.Watch{To: to, World: hang.World{Job: string(snap.Job.Name),
		Generation: uint64(w.Generation), Members: w.Members, Slots: w.Slots}}
	verdict, all := watch.Ask(ctx)
	if c.Out.Json {
		return c.Out.Object(map[string]any{"job": snap.Job.Name, "generation": w.Generation,
			"verdict": verdict, "ranks": all})
	}
	return printStacks(c, &watch, verdict, all)
}

func printStacks(c *command.Call, w *hang.Watch, v hang.Verdict, all []hang.Evidence) error {
	lines := []string{v.Stall(0).Verdict()}
	for i := range all {
		e := &all[i]
		lines = append(lines, "", e.Title(w.Member(e.Rank).Node))
		stack := strings.TrimSpace(e.Stack)
		if stack == "" {
			stack = "no stack: the process is stopped, or is not Python"
		}
		for line := range strings.Lines(stack) {
			lines = append(lines, "    "+strings.TrimRight(line, "\n"))
		}
	}
	if len(v.Without) > 0 {
		lines = append(lines, "", "no answer from "+phrase.List(v.Without))
	}
	for _, line := range lines {
		if err := c.Out.Folded(4, "%s", line); err != nil {
			return err
		}
	}
	return nil
}
