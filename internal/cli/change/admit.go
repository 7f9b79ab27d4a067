package change

import (
	"context"
	"slices"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/machines"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/store"
)

// Admit is the command that takes a node that is kept out.
func Admit() command.Command {
	return command.Command{Name: "admit", Args: "NODE [JOB]", Most: 2,
		Usage: "lift a quarantine or drain of a node", Action: admitAction, Flags: []command.Flag{
			command.JobFlag(),
			{Name: "machine", Kind: command.Boolean,
				Usage: "NODE is a machine of elastic nodes --all: forget what is known of it"},
		}}
}

func admitAction(ctx context.Context, c *command.Call) error {
	if len(c.Args) == 0 {
		return problem.New(problem.Usage, "no node is given").Cure("elastic admit NODE")
	}
	node := c.Args[0]
	c.Args = c.Args[1:]
	if c.Truth("machine") && len(c.Args) > 0 {
		return problem.New(problem.Usage, "a machine is of no job: elastic admit does not take %q with --machine",
			c.Args[0]).Cure("elastic admit %s --machine", node)
	}
	if c.Truth("machine") {
		return admitMachine(ctx, c, node)
	}
	s, snap, err := target.OpenLivingJob(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		if target.Ended(&snap) {
			return endedError(&snap)
		}
		if err := keptOut(&snap, node); err != nil {
			return err
		}
		if n := snap.Node(node); n != nil && n.MachineID != "" {
			if err := machines.Clear(ctx, s, n.MachineID); err != nil {
				c.Out.Say("%v", err) // the node is admitted all the same
			}
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

// keptOut returns the reason why node cannot be admitted, or nil.
func keptOut(s *rendezvous.Snapshot, node string) error {
	if slices.Contains(s.Wish.Drain, node) ||
		slices.ContainsFunc(plan.Quarantined(s), func(k plan.KeptOut) bool { return k.Node == node }) {
		return nil
	}
	return problem.New(problem.NoQuarantine, "node %s of job %s is not in quarantine, nor drained", node,
		s.Job.Name).Cure("elastic nodes %s", s.Job.Name)
}

// admitMachine deletes the record of a machine, given by its id or host name.
func admitMachine(ctx context.Context, c *command.Call, name string) error {
	s, err := target.Open(ctx, c, target.Ask, 0)
	if err != nil {
		return err
	}
	defer s.Close()
	all, err := machines.All(ctx, s)
	if err != nil {
		return err
	}
	for _, r := range all {
		if r.ID != name && r.Hostname != name {
			continue
		}
		if err := machines.Clear(ctx, s, r.ID); err != nil {
			return err
		}
		if c.Out.Json {
			return c.Out.Object(map[string]any{"machine": r.ID, "hostname": r.Hostname, "state": "admitted"})
		}
		return c.Out.Line("machine %s is admitted: nothing is known of it any more", r.Hostname)
	}
	return problem.New(problem.NoQuarantine, "nothing is known of a machine %s", name).
		Cure("elastic nodes --all")
}
