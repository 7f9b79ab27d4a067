package joining

import (
	"context"
	"errors"
	"strings"

	"github.com/elasticd/elastic/internal/agent/machine"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// checkProgram refuses another program than the job's while a registered node runs another one,
// unless some node runs this program, or the user allowed it. A job without nodes goes on with this
// program, because all its nodes may be started again with a corrected one. A node that does not
// answer does not count; this node waits until its lease ends.
func (j *Joiner) checkProgram(ctx context.Context, s *rendezvous.Snapshot) error {
	mine := j.Job.Origin
	if j.OtherProgram || !s.Job.Origin.Differs(mine.Digest()) {
		return nil
	}
	name, unlock, err := j.name(ctx)
	if err != nil {
		return nil // lockName reports the error
	}
	unlock()
	var others []membership.Node
	for _, n := range s.Nodes {
		switch {
		case n.Program == mine.Digest():
			return nil
		case n.Program == "" || n.Attempt != s.Job.Attempt || n.Node == name && n.Host == j.Disk.HostID():
			// Its program is not known, it is of an attempt that has ended, or it is an earlier
			// incarnation of this node, whose lock is free.
		default:
			others = append(others, n)
		}
	}
	if len(others) == 0 {
		return nil
	}
	if err := j.openPeers(ctx, s); err != nil {
		return err
	}
	for _, n := range others[:min(len(others), machine.MaxWitnesses)] {
		if j.Peers.Probe(ctx, n.Ref).Kind == membership.Same {
			runs := "the first"
			if s.Job.Origin.Differs(n.Program) {
				runs = "neither"
			}
			ran, yours := strings.Join(s.Job.Origin.Command, " "), strings.Join(mine.Command, " ")
			return problem.New(problem.JobDiffers, "job %s runs `%s`, and this node was given `%s`", s.Job.Name, ran,
				yours).Because("node %s is in the job and runs %s", n.Node, runs).
				Cure("the line of the other nodes; or another --job-id for another job; or --other-program if it "+
					"is meant").
				Detail("flag", "program").Detail("job", ran).Detail("yours", yours).Detail("node", n.Node)
		}
	}
	return hindrance{errors.New("nodes that run another program are registered, and do not answer")}
}
