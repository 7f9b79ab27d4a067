package machine

import (
	"slices"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
)

// warmUp has a spare of a training job start its workers before a World has it. The registration of
// a node that joins says so (Joining.Warms): the others go on without it, unless they need it, until
// its workers wait and it has proved that it can be ready.
func (m *Machine) warmUp() {
	w := m.seen.world
	if w == nil {
		return
	}
	trains := w.Phase == rendezvous.Running && w.Attempt == m.self.node.Attempt
	if trains && m.cfg.Warm && m.self.job.Roles == nil && !m.self.job.Origin.Differs(m.self.node.Program) {
		m.workers.StartFirst(m.withThisNode(w), m.workerFacts(), m.out)
	}
	if m.self.warms && (m.workers.FirstSettled() || m.workers.Group == nil) {
		m.out.Request(message.KindWarm, message.PublishWarm{World: *w, Me: m.self.node})
	}
}

// withThisNode returns w with this node as one more member.
func (m *Machine) withThisNode(w *rendezvous.World) rendezvous.World {
	like := *w
	like.Members, like.Count = append(slices.Clone(w.Members), m.self.node.Ref), w.Count+1
	// nil: batch and rate are not known
	like.Plan, _ = plan.Batch(&rendezvous.Snapshot{Job: m.self.job}, like.Count)
	return like
}
