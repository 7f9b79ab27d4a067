package cli

import (
	"context"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

func rmCommand() command {
	return command{name: "rm", args: "JOB", most: 1, usage: "forget a job that has no nodes", action: rmAction, flags: []flag{
		{name: "job-id", arg: "JOB", usage: "the job", same: []string{"rdzv-id"}}, // never taken from the environment
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
		if err != nil {
			return err
		}
		if len(snap.Nodes) > 0 {
			var nodes []string
			for _, n := range snap.Nodes {
				nodes = append(nodes, n.Node)
			}
			return fail(JobLive, "job %s has %s: %s", name, plural(len(nodes), "node", "nodes"), some(nodes)).
				cure("elastic stop %s", name).detail("nodes", nodes)
		}
		err = rendezvous.Requests{Store: s, Job: name}.Remove(ctx, snap.Job)
		if rendezvous.Moved(err) {
			continue // a node came, or a new attempt: look again
		}
		if err != nil {
			return err
		}
		if c.out.json {
			return c.out.object(map[string]any{"job": name, "removed": true})
		}
		return c.out.line("job %s removed", name)
	}
}
