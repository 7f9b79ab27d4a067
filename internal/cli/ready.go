package cli

import (
	"context"
	"slices"

	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

func readyCommand() command {
	return command{name: "ready", args: "[JOB]", most: 1, usage: "end with 0 if a node takes part (a readiness probe)",
		action: readyAction, flags: []flag{jobFlag(),
			{name: "node", arg: "NAME", usage: "the node", env: []string{"POD_NAME"}}}}
}

// readyAction answers whether a node trains, or stands by as a spare.
func readyAction(ctx context.Context, c *call) error {
	node := c.setting("node")
	if !node.given {
		return fail(Usage, "which node?").cure("elastic ready --node=NAME, or POD_NAME in the environment")
	}
	s, name, err := c.jobServer(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	snap, err := c.job(ctx, s, name, true)
	if err != nil {
		return err
	}
	taking := []status.NodeState{status.NodeRunning, status.NodeReady, status.NodeSpare}
	for _, n := range s.explain(&snap, c.out.now()).Nodes {
		if n.Node != node.text {
			continue
		}
		if slices.Contains(taking, n.State) {
			return nil
		}
		return fail(Failed, "node %s is %s", node.text, n.State)
	}
	return fail(Failed, "node %s is not in job %s", node.text, snap.Job.Name)
}
