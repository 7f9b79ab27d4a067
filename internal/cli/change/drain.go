package change

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/machines"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/store"
)

// Drain is the command that takes a node out of a job.
func Drain() command.Command {
	return command.Command{Name: "drain", Args: "NODE [JOB]", Most: 2,
		Usage: "have a job save and go on without a node, until it is admitted", Action: drainAction,
		Flags: []command.Flag{
			command.JobFlag(),
			{Name: "machine", Kind: command.Boolean, Usage: "all nodes of its machine, and in later jobs too"},
			{Name: "below-min", Kind: command.Boolean, Usage: "also if the job has to wait for another node then"},
			{Name: "timeout", Arg: "TIME", Usage: "how long to wait for the result (none)"},
			{Name: "detach", Kind: command.Boolean, Usage: "do not wait for the result"},
		}}
}

func drainAction(ctx context.Context, c *command.Call) error {
	if len(c.Args) == 0 {
		return problem.New(problem.Usage, "no node is given").Cure("elastic drain NODE")
	}
	node := c.Args[0]
	c.Args = c.Args[1:]
	limit, err := c.Setting("timeout").DurationOrNone(0)
	if err != nil {
		return err
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
		names, err := namesToDrain(c, &snap, node)
		if err != nil {
			return err
		}
		wish, err := drainWish(c, &snap, names)
		if err != nil {
			return err
		}
		if c.Truth("machine") {
			n := snap.Node(node)
			m := machines.Machine{ID: n.MachineID, Hostname: n.Hostname}
			if err := machines.Drain(ctx, s, m, c.Out.Now()); err != nil {
				return err
			}
		}
		_, err = txn.Requests{Store: s, Job: snap.Job.Name}.SetWish(ctx, &snap, wish)
		if err == nil {
			f := target.Followed{Call: c, Server: s, Seen: &snap}
			return followDrain(ctx, f, names, limit)
		}
		if !store.Moved(err) {
			return err
		}
		if snap, err = target.ReadJob(ctx, s, snap.Job.Name); err != nil {
			return err
		}
	}
}

// namesToDrain returns the node, or with --machine all nodes of its machine.
func namesToDrain(c *command.Call, s *rendezvous.Snapshot, node string) ([]string, error) {
	n := s.Node(node)
	switch {
	case n == nil:
		return nil, problem.New(problem.Drain, "job %s has no node %s", s.Job.Name, node).
			Cure("elastic nodes %s", s.Job.Name)
	case !c.Truth("machine"):
		return []string{node}, nil
	case n.MachineID == "":
		return nil, problem.New(problem.Drain, "node %s does not know its machine", node).
			Cure("start it with ELASTIC_MACHINE=NAME")
	}
	return onMachine(s, n.MachineID), nil
}

// drainWish returns the wish without some nodes, or the reason why the job cannot do without them.
func drainWish(c *command.Call, s *rendezvous.Snapshot, names []string) (rendezvous.Wish, error) {
	wish := s.Wish
	wish.By, wish.Drain = "drain", slices.Clone(wish.Drain)
	for _, name := range names {
		if !slices.Contains(wish.Drain, name) {
			wish.Drain = append(wish.Drain, name)
		}
	}
	after := *s
	after.Wish = wish
	left, least := plan.Present(&after, plan.StoreView(&after, c.Out.Now())), s.Least()
	if left >= least || c.Truth("below-min") {
		return wish, nil
	}
	return wish, problem.New(problem.Drain, "job %s needs %s, and without %s it has %d", s.Job.Name,
		phrase.Count(least, "node"), phrase.List(names), left).
		Cure("start another node first, or --below-min: the job then waits for one")
}

// onMachine returns the nodes that run on a machine.
func onMachine(s *rendezvous.Snapshot, id string) (names []string) {
	for _, n := range s.Nodes {
		if n.MachineID == id {
			names = append(names, n.Node)
		}
	}
	return names
}

// followDrain follows the job until no World has the nodes.
func followDrain(ctx context.Context, f target.Followed, nodes []string, limit time.Duration) error {
	c, seen := f.Call, f.Seen
	name := seen.Job.Name
	list := phrase.List(nodes)
	if c.Truth("detach") {
		return drained(c, seen, nodes)
	}
	ctx, cancel := target.Within(ctx, limit)
	defer cancel()
	var missing target.ProgressLine
	err := f.Follow(ctx, func(snap *rendezvous.Snapshot) (bool, error) {
		missing.Tell(c, status.Explain(snap, c.Out.Now()))
		switch {
		case target.Remade(snap, seen) != nil:
			return true, target.Remade(snap, seen)
		case target.Ended(snap):
			return true, endedError(snap)
		case isOut(snap, nodes):
			return true, drained(c, snap, nodes)
		}
		return false, nil
	})
	return target.Cut(c, err, missing.Last, target.Asked{Stays: "the request that " + list + " goes stays",
		Cure: fmt.Sprintf("undo: elastic admit %s --job-id=%s", nodes[len(nodes)-1], name)})
}

// isOut reports whether no worker of the nodes trains any more.
func isOut(s *rendezvous.Snapshot, nodes []string) bool {
	w := s.World
	if w == nil {
		return true
	}
	has := slices.ContainsFunc(w.Members, func(m membership.Ref) bool { return slices.Contains(nodes, m.Node) })
	saved := w.Phase == rendezvous.Waiting &&
		plan.AllSaved(s, plan.StoreView(s, time.Now()), 0, 0)
	return !has && w.Phase == rendezvous.Running || has && saved && plan.Present(s,
		plan.StoreView(s, time.Now())) < s.Least()
}

// drained prints the result on stdout.
func drained(c *command.Call, s *rendezvous.Snapshot, nodes []string) error {
	back := "NODE"
	if len(nodes) == 1 {
		back = nodes[0]
	}
	state, text := "drained", fmt.Sprintf("drained: job %s goes on without %s; elastic admit %s takes it back",
		s.Job.Name, phrase.List(nodes), back)
	if text += lost(s); !isOut(s, nodes) {
		state, text = "asked", fmt.Sprintf("job %s was asked to go on without %s", s.Job.Name, phrase.List(nodes))
	}
	if c.Out.Json {
		return c.Out.Object(map[string]any{"job": s.Job.Name, "nodes": nodes, "state": state})
	}
	return c.Out.Line("%s", text)
}
