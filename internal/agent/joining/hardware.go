package joining

import (
	"context"
	"fmt"
	"time"

	"github.com/elasticd/elastic/pkg/machines"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// askOfMachine writes into n what the record of this machine says of it, and returns what this node
// says about that. A record that cannot be read says nothing: a user of the store who may not read it
// can train all the same.
func (j *Joiner) askOfMachine(ctx context.Context, s *rendezvous.Snapshot, n *membership.Node) []string {
	n.MachineID, n.Hostname = j.Hardware.ID, j.Hardware.Hostname
	if n.MachineID == "" {
		return nil
	}
	r, err := machines.Of(ctx, j.Store, n.MachineID)
	if err != nil {
		return nil
	}
	lift := fmt.Sprintf("; to take it: elastic admit %s --job-id=%s", n.Node, s.Job.Name)
	if r.Drained != nil {
		n.Drained, n.Doubt = true, "its machine is drained"
		return []string{"this machine is drained: no world takes this node" + lift}
	}
	if n.Doubt = r.Doubt(s.Job.UID, time.Now()); n.Doubt != "" {
		return []string{"this node is only a spare: " + n.Doubt + lift}
	}
	return nil
}
