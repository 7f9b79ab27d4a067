package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/elasticd/elastic/internal/agent/runtime"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

func rmCommand() command {
	return command{name: "rm", args: "JOB", most: 1, usage: "forget a job that has no nodes, and delete what it left on this machine", action: rmAction, flags: []flag{
		{name: "job-id", arg: "JOB", usage: "the job", same: []string{"rdzv-id"}}, // never taken from the environment
		{name: "keep-checkpoints", kind: boolean, usage: "those on this machine stay"},
		{name: "yes", short: "y", kind: boolean, usage: "do not ask"},
	}}
}

func rmAction(ctx context.Context, c *call) error {
	name, err := c.jobName()
	if err != nil {
		return err
	}
	if name == "" {
		return fail(Usage, "which job?").cure("elastic rm JOB")
	}
	s, err := c.server(ctx, ask, 0)
	if err != nil {
		return err
	}
	defer s.Close()
	for agreed := false; ; {
		snap, err := readJob(ctx, s, name)
		var none *Error
		if errors.As(err, &none) && (none.Code == JobNone || none.Code == JobLost) {
			return c.forget(ctx, s, &snap, name, err)
		}
		if schema.Unreadable(err) {
			return c.removeUnreadable(ctx, s, name, err)
		}
		if err != nil {
			return err
		}
		if len(snap.Nodes) > 0 {
			var nodes []string
			for _, n := range snap.Nodes {
				nodes = append(nodes, n.Node)
			}
			return fail(JobLive, "job %s has %s: %s", name, phrase.Count(len(nodes), "node"), phrase.List(nodes)).
				cure("elastic stop %s", name).detail("nodes", nodes)
		}
		if !agreed {
			if err := c.agree(&snap); err != nil {
				return err
			}
			agreed = true
		}
		err = txn.Requests{Store: s, Job: name}.Remove(ctx, &snap)
		if store.Moved(err) {
			continue // a node came, or a new attempt: look again
		}
		if err != nil {
			return err
		}
		return c.removed(name, snap.Job.UID)
	}
}

// agree says what will be deleted and where, and on a terminal has the user agree to it.
func (c *call) agree(snap *rendezvous.Snapshot) error {
	j := snap.Job
	here, err := c.kept(j.Name, j.UID)
	if err != nil {
		return err
	}
	c.out.say("deletes on the server: job %s (%s, %s)", j.Name, status.Explain(snap, c.out.now()).State,
		phrase.Count(len(snap.History), "checkpoint"))
	c.sayHere(here)
	if away := holdersAway(snap, here); len(away) > 0 {
		c.out.say("stays: checkpoints on other machines (%s); `elastic rm %s` there deletes them", phrase.List(away), j.Name)
	}
	return c.confirm(fmt.Sprintf("remove job %s?", j.Name))
}

// sayHere says what of a job will be deleted on this machine.
func (c *call) sayHere(here []node.Kept) {
	if len(here) == 0 {
		return
	}
	var bytes int64
	var names []string
	for _, k := range here {
		bytes, names = bytes+k.Size(!c.context.Bool("keep-checkpoints")), append(names, k.Node)
	}
	without := ""
	if c.context.Bool("keep-checkpoints") {
		without = ", without the checkpoints"
	}
	c.out.say("deletes here: %s (nodes %s)%s", size(bytes), phrase.List(names), without)
}

// holdersAway are the nodes that have checkpoints of the job and are not of this machine.
func holdersAway(snap *rendezvous.Snapshot, here []node.Kept) []string {
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

// removed says that a job is forgotten, after what it left here is deleted.
func (c *call) removed(name schema.Job, uid schema.UID) error {
	nodes, bytes, err := c.clear(name, uid)
	if err != nil {
		return fail(Failed, "job %s is removed, but not all that it left here: %v", name, err).of(err)
	}
	if c.out.json {
		return c.out.object(map[string]any{"job": name, "removed": true, "nodes": nodes, "bytes": bytes})
	}
	return c.out.line("job %s removed", name)
}

// clear removes what the nodes of this host keep of a job. Where an agent still lives that the server no
// longer knows, its own stays.
func (c *call) clear(name schema.Job, uid schema.UID) (nodes []string, bytes int64, err error) {
	nodes = []string{}
	kept, err := c.kept(name, uid)
	if err != nil {
		return nodes, 0, err
	}
	for _, k := range kept {
		n, err := k.Remove(name, !c.context.Bool("keep-checkpoints"))
		if errors.Is(err, runtime.ErrLocked) {
			c.out.say("node %s of it still runs here: what it keeps stays", k.Node)
			continue
		}
		if err != nil {
			return nodes, bytes, err
		}
		nodes, bytes = append(nodes, k.Node), bytes+n
	}
	return nodes, bytes, nil
}

// kept is what the nodes of this host keep of one job, and not of another one of its name.
func (c *call) kept(name schema.Job, uid schema.UID) (mine []node.Kept, err error) {
	all, err := c.keptOf(name)
	for _, k := range all {
		if k.UID == uid {
			mine = append(mine, k)
		}
	}
	return mine, err
}
