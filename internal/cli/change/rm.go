package change

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/internal/cli/command"

	"github.com/elasticd/elastic/internal/cli/screen"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/node/disk"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Rm is the command that removes a job.
func Rm() command.Command {
	return command.Command{Name: "rm", Args: "JOB", Most: 1,
		Usage: "remove a job without nodes, and its data on this machine", Action: rmAction,
		Flags: []command.Flag{
			// never taken from the environment
			{Name: "job-id", Arg: "JOB", Usage: "the job", Same: []string{"rdzv-id"}},
			{Name: "keep-checkpoints", Kind: command.Boolean, Usage: "keep the checkpoints on this machine"},
			{Name: "yes", Short: "y", Kind: command.Boolean, Usage: "do not ask"},
		}}
}

// openNamed connects a command whose job must be named, because it may be gone.
func openNamed(ctx context.Context, c *command.Call) (*target.Server, schema.Job, error) {
	name, err := target.JobName(c)
	if err != nil {
		return nil, "", err
	}
	if name == "" {
		return nil, "", problem.New(problem.Usage, "which job?").Cure("elastic %s JOB", c.Command.Name)
	}
	s, err := target.Open(ctx, c, target.Ask, 0)
	return s, name, err
}

func rmAction(ctx context.Context, c *command.Call) error {
	s, name, err := openNamed(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	for agreed := false; ; {
		snap, err := target.ReadJob(ctx, s, name)
		var none *problem.Error
		if errors.As(err, &none) && none.Code == problem.JobNone {
			return removal{c, s, name}.forget(err)
		}
		if schema.Unreadable(err) {
			return removal{c, s, name}.removeUnreadable(ctx, err)
		}
		if err != nil {
			return err
		}
		if len(snap.Nodes) > 0 {
			var nodes []string
			for _, n := range snap.Nodes {
				nodes = append(nodes, n.Node)
			}
			return problem.New(problem.JobLive, "job %s has %s: %s", name, phrase.Count(len(nodes), "node"),
				phrase.List(nodes)).
				Cure("elastic stop %s", name).Detail("nodes", nodes)
		}
		if !agreed {
			if err := agree(c, &snap); err != nil {
				return err
			}
			agreed = true
		}
		err = txn.Requests{Store: s, Job: name}.Remove(ctx, &snap)
		if store.Moved(err) {
			continue // a node joined, or an attempt started: read the job again
		}
		if err != nil {
			return err
		}
		mine, err := target.Kept(c, name, snap.Job.UID)
		if err != nil {
			return err
		}
		also, err := askOthers(c, name, snap.Job.UID)
		if err != nil {
			return err
		}
		return removed(c, name, append(mine, also...))
	}
}

// removal is elastic rm of one job.
type removal struct {
	c    *command.Call
	s    *target.Server
	name schema.Job
}

// agree prints what will be deleted and where. On a terminal it asks the user.
func agree(c *command.Call, snap *rendezvous.Snapshot) error {
	j := snap.Job
	here, err := target.Kept(c, j.Name, j.UID)
	if err != nil {
		return err
	}
	c.Out.Say("deletes on the server: job %s (%s, %s)", j.Name, status.Explain(snap, c.Out.Now()).State,
		phrase.Count(len(snap.History), "checkpoint"))
	sayHere(c, here)
	if away := holdersAway(snap, here); len(away) > 0 {
		c.Out.Say("stays: checkpoints on other machines (%s); `elastic rm %s` there deletes them",
			phrase.List(away), j.Name)
	}
	return c.Confirm(fmt.Sprintf("remove job %s?", j.Name))
}

// part returns which part of the data on this machine is removed.
func part(c *command.Call) disk.Part {
	if c.Truth("keep-checkpoints") {
		return disk.AllButCheckpoints
	}
	return disk.Everything
}

// sayHere prints what will be deleted on this machine.
func sayHere(c *command.Call, here []disk.Kept) {
	if len(here) == 0 {
		return
	}
	var bytes int64
	var names []string
	for _, k := range here {
		bytes, names = bytes+k.Size(part(c)), append(names, k.Node)
	}
	without := ""
	if c.Truth("keep-checkpoints") {
		without = ", without the checkpoints"
	}
	c.Out.Say("deletes here: %s (nodes %s)%s", screen.Size(bytes), phrase.List(names), without)
}

// holdersAway returns the nodes on other machines that have checkpoints of the job.
func holdersAway(snap *rendezvous.Snapshot, here []disk.Kept) []string {
	away := map[string]bool{}
	for _, h := range snap.History {
		for _, r := range h.Holders {
			away[r.Node] = true
		}
	}
	for name, held := range snap.Held {
		away[name] = len(held.Numbers) > 0
	}
	for _, k := range here {
		delete(away, k.Node)
	}
	maps.DeleteFunc(away, func(_ string, has bool) bool { return !has })
	return slices.Sorted(maps.Keys(away))
}

// removed deletes kept data of removed jobs of one name on this machine, and prints the result.
func removed(c *command.Call, name schema.Job, kept []disk.Kept) error {
	nodes, bytes, err := clear(c, name, kept)
	if err != nil {
		return problem.New(problem.Failed, "job %s is removed, but not all that it left here: %v",
			name, err).Of(err)
	}
	if c.Out.Json {
		return c.Out.Object(map[string]any{"job": name, "removed": true, "nodes": nodes, "bytes": bytes})
	}
	return c.Out.Line("job %s removed", name)
}

// clear removes kept data. It skips that of a node whose agent still runs, although the server does not
// know it.
func clear(c *command.Call, name schema.Job, kept []disk.Kept) (nodes []string, bytes int64, err error) {
	nodes = []string{}
	for _, k := range kept {
		n, err := k.Remove(name, part(c))
		if errors.Is(err, message.ErrLocked) {
			c.Out.Say("node %s of the job still runs here: its data stays", k.Node)
			continue
		}
		if err != nil {
			return nodes, bytes, err
		}
		nodes, bytes = append(nodes, k.Node), bytes+n
	}
	return nodes, bytes, nil
}
