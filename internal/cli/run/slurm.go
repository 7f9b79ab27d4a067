package run

import (
	"context"
	"strings"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// nextOfSlurm starts a finished job again if its id is that of the Slurm job, and its command was
// another one. A batch script can run several commands under one id. The same command does not
// start again, because Slurm may have queued the batch script again.
func nextOfSlurm(ctx context.Context, c *command.Call, s *target.Server, o *node.Options) error {
	if o.Again || c.Setting("job-id").Origin != "SLURM_JOB_ID" {
		return nil
	}
	snap, err := rendezvous.Read(ctx, s, o.Job.Name)
	if err != nil || snap.Job == nil || !target.Ended(&snap) || snap.World.Phase != rendezvous.Done {
		return err
	}
	if o.Again = snap.Job.Origin.Differs(o.Job.Origin.Digest()); o.Again {
		c.Out.Say("elastic: job %s is done and ran %s; this command begins it anew", o.Job.Name,
			strings.Join(snap.Job.Origin.Command, " "))
	}
	return nil
}
