package show

import (
	"context"
	"slices"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

// Ready is the command that tests whether a node of a job is ready.
func Ready() command.Command {
	return command.Command{Name: "ready", Args: "[JOB]", Most: 1,
		Usage:  "end with 0 if a node takes part (a readiness probe)",
		Action: readyAction, Flags: []command.Flag{command.JobFlag(),
			{Name: "node", Arg: "NAME", Usage: "the node", Env: []string{"POD_NAME"}}}}
}

// readyAction succeeds if a node trains, or if it is a spare.
func readyAction(ctx context.Context, c *command.Call) error {
	node := c.Setting("node")
	if !node.Given {
		return problem.New(problem.Usage, "no node is given").
			Cure("elastic ready --node=NAME, or POD_NAME in the environment")
	}
	s, snap, err := target.OpenJob(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	taking := []status.NodeState{status.NodeRunning, status.NodeReady, status.NodeSpare}
	for _, n := range s.Explain(&snap, c.Out.Now()).Nodes {
		if n.Node != node.Text {
			continue
		}
		if slices.Contains(taking, n.State) {
			return nil
		}
		return problem.New(problem.Failed, "node %s is %s", node.Text, n.State)
	}
	return problem.New(problem.Failed, "node %s is not in job %s", node.Text, snap.Job.Name)
}
