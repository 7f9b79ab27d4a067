package cli

import (
	"context"
	"errors"

	"github.com/elasticd/elastic/internal/agent/runtime"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

func rmCommand() command {
	return command{name: "rm", args: "JOB", most: 1, usage: "forget a job that has no nodes, and what it left on this machine", action: rmAction, flags: []flag{
		{name: "job-id", arg: "JOB", usage: "the job", same: []string{"rdzv-id"}}, // never taken from the environment
		{name: "keep-checkpoints", kind: boolean, usage: "those on this machine stay"},
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
	for {
		snap, err := readJob(ctx, s, name)
		var none *Error
		if errors.As(err, &none) && (none.Code == JobNone || none.Code == JobLost) {
			return c.forget(ctx, s, &snap, name, err)
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
		err = txn.Requests{Store: s, Job: name}.Remove(ctx, &snap)
		if store.Moved(err) {
			continue // a node came, or a new attempt: look again
		}
		if err != nil {
			return err
		}
		return c.removed(snap.Job)
	}
}

// removed says that a job is forgotten, after what it left here is, too.
func (c *call) removed(j *rendezvous.Job) error {
	nodes, bytes, err := c.clear(j.Name, j.UID)
	if err != nil {
		return fail(Failed, "job %s is removed, but not all that it left here: %v", j.Name, err).of(err)
	}
	if c.out.json {
		return c.out.object(map[string]any{"job": j.Name, "removed": true, "nodes": nodes, "bytes": bytes})
	}
	if len(nodes) > 0 {
		c.out.say("what it left on this machine, too: %s of %s", size(bytes), phrase.List(nodes))
	}
	return c.out.line("job %s removed", j.Name)
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
