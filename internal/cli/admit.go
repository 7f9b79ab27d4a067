package cli

import (
	"context"
	"slices"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/store"
)

func admitCommand() command {
	return command{name: "admit", args: "NODE", most: 1, usage: "lift the quarantine of a node", action: admitAction, flags: []flag{jobFlag()}}
}

func admitAction(ctx context.Context, c *call) error {
	if len(c.args) != 1 {
		return fail(Usage, "which node?").cure("elastic admit NODE")
	}
	node := c.args[0]
	c.args = nil
	s, name, err := c.jobServer(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	snap, err := c.job(ctx, s, name, false)
	if err != nil {
		return err
	}
	for {
		if ended(&snap) {
			return endedError(&snap)
		}
		if err := inQuarantine(&snap, node); err != nil {
			return err
		}
		err := txn.Requests{Store: s, Job: snap.Job.Name}.Admit(ctx, &snap, node)
		if err == nil && c.out.json {
			return c.out.object(map[string]any{"job": snap.Job.Name, "node": node, "state": "admitted"})
		} else if err == nil {
			return c.out.line("node %s of job %s is admitted", node, snap.Job.Name)
		}
		if !store.Moved(err) {
			return err
		}
		if snap, err = readJob(ctx, s, snap.Job.Name); err != nil {
			return err
		}
	}
}

// inQuarantine is why node cannot be admitted, or nil.
func inQuarantine(s *rendezvous.Snapshot, node string) error {
	if slices.ContainsFunc(plan.Quarantined(s), func(k plan.KeptOut) bool { return k.Node == node }) {
		return nil
	}
	return fail(NoQuarantine, "node %s of job %s is not in quarantine", node, s.Job.Name).cure("elastic nodes %s", s.Job.Name)
}
