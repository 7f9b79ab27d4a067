package change

import (
	"context"
	"slices"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/problem"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/store"
)

// Admit is the command that takes a node out of quarantine.
func Admit() command.Command {
	return command.Command{Name: "admit", Args: "NODE", Most: 1, Usage: "lift the quarantine of a node",
		Action: admitAction, Flags: []command.Flag{command.JobFlag()}}
}

func admitAction(ctx context.Context, c *command.Call) error {
	if len(c.Args) != 1 {
		return problem.New(problem.Usage, "no node is given").Cure("elastic admit NODE")
	}
	node := c.Args[0]
	c.Args = nil
	s, snap, err := target.OpenLivingJob(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		if target.Ended(&snap) {
			return endedError(&snap)
		}
		if err := inQuarantine(&snap, node); err != nil {
			return err
		}
		err := txn.Requests{Store: s, Job: snap.Job.Name}.Admit(ctx, &snap, node)
		if err == nil && c.Out.Json {
			return c.Out.Object(map[string]any{"job": snap.Job.Name, "node": node, "state": "admitted"})
		} else if err == nil {
			return c.Out.Line("node %s of job %s is admitted", node, snap.Job.Name)
		}
		if !store.Moved(err) {
			return err
		}
		if snap, err = target.ReadJob(ctx, s, snap.Job.Name); err != nil {
			return err
		}
	}
}

// inQuarantine returns the reason why node cannot be admitted, or nil.
func inQuarantine(s *rendezvous.Snapshot, node string) error {
	if slices.ContainsFunc(plan.Quarantined(s), func(k plan.KeptOut) bool { return k.Node == node }) {
		return nil
	}
	return problem.New(problem.NoQuarantine, "node %s of job %s is not in quarantine", node, s.Job.Name).
		Cure("elastic nodes %s", s.Job.Name)
}
