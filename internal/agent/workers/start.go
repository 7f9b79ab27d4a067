package workers

import (
	"time"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// maxReadAge is the largest age of the read on which a start depends.
const maxReadAge = time.Second

// GetReady prepares a forming World and reports Ready, once nothing older is left here. memory is
// what this node then writes down about the job.
func (w *Workers) GetReady(memory rendezvous.Memory, f *Facts, out *message.Outbox) {
	world := f.World
	if w.ready >= world.Generation || !w.Quiet() || f.Leaving != nil {
		return
	}
	ready := message.GetReady{World: *world, Memory: memory, Me: f.Self, Member: f.member(), Ports: f.ports(),
		InMemory: w.needsNoCheckpoint(f)}
	if w.stopped >= f.Ran { // other workers have trained since an older stop
		ready.StopMS, ready.Idle = w.stopMS, w.idleAt
	}
	out.RequestFor(message.KindReady, world.Generation, ready)
}

// ports is the number of ports that the workers of a member need.
func (f *Facts) ports() int {
	if !f.member() || f.Job.Roles == nil {
		return f.World.Slots
	}
	return f.Job.Ports(f.World.Count, f.Rank)
}

// Start starts the workers of a running World, once, after a read of that World that is at most
// maxReadAge old. If workers wait for the World, they get it instead.
func (w *Workers) Start(f *Facts, out *message.Outbox) {
	world, waiting := f.World, w.waiting(f)
	if !f.member() || w.Group != nil && !waiting || f.Leaving != nil || w.ready != world.Generation ||
		world.Generation <= w.floor ||
		world.Phase != rendezvous.Running && world.Phase != rendezvous.Finishing {
		return
	}
	if f.Now.Sub(f.AsOf) > maxReadAge {
		out.Request(message.KindRead, message.Read{})
		return
	}
	w.Group = &Group{World: *world, codes: make([]*int, world.Workers(f.Rank)), canStay: waiting,
		Handed: waiting && w.inMemory}
	w.floor = max(w.floor, world.Generation)
	w.exit.record = nil
	w.stopMS, w.idleAt = 0, time.Time{}
	start := message.Start{World: *world, Rank: f.Rank, Node: f.Self.Node, Ports: w.ports, Resume: w.resume,
		Unprepared: w.inMemory}
	if waiting {
		out.RequestFor(message.KindStart, world.Generation, message.ContinueWorkers{Start: start})
	} else {
		out.RequestFor(message.KindStart, world.Generation, message.StartWorkers{Start: start})
	}
}
