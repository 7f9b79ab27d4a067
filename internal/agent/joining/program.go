package joining

import (
	"context"
	"errors"
	"strings"

	"github.com/elasticd/elastic/internal/agent/detection"
	"github.com/elasticd/elastic/internal/agent/refusal"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// checkProgram refuses a program that is not the job's while a node is here that runs another one,
// unless a node runs this one, or the user said that it is meant. A job without a node goes on with
// this program: all its nodes may be started again with a corrected one. A node that does not
// answer counts for nothing, and is waited out.
func (j *Joiner) checkProgram(ctx context.Context, s *rendezvous.Snapshot) error {
	mine := j.Job.Origin
	if j.OtherProgram || !s.Job.Origin.Differs(mine.Digest()) {
		return nil
	}
	name, unlock, err := j.name(ctx)
	if err != nil {
		return nil // taking the name says why
	}
	unlock()
	var others []membership.Node
	for _, n := range s.Nodes {
		switch {
		case n.Program == mine.Digest():
			return nil
		case n.Program == "" || n.Attempt != s.Job.Attempt || n.Node == name && n.Host == j.Disk.HostID():
			// Not known, of an attempt that is over, or the life of this node before: its lock is
			// free.
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
	for _, n := range others[:min(len(others), detection.MaxWitnesses)] {
		if j.Peers.Probe(ctx, n.Ref).Kind == membership.Same {
			return &refusal.OtherProgram{Job: string(s.Job.Name), Node: n.Node,
				NodeRunsRan: !s.Job.Origin.Differs(n.Program),
				Ran:         strings.Join(s.Job.Origin.Command, " "), Yours: strings.Join(mine.Command, " ")}
		}
	}
	return hindrance{errors.New("nodes that run another program are registered, and do not answer")}
}
