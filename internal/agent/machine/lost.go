package machine

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/internal/agent/outbox"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// memory is what this node has written down of the job, for the case that the store loses it.
type memory struct {
	world   schema.Generation // the newest World that is written down
	spares  []membership.Ref  // other nodes that were registered under it, and are written down with it
	asked   []membership.Ref  // likewise, on their way to the disk
	ready   []membership.Ref  // likewise, with what GetReady writes down
	backoff time.Duration     // before the next try to write; 0: the last one succeeded
}

const (
	firstBackoff = time.Second
	mostBackoff  = 30 * time.Second
)

func (m *Machine) applyMemory(e event.Event) {
	switch e := e.(type) {
	case event.StoreBehind:
		if o := &m.seen; m.self.joined {
			o.behind, o.setBack, o.wrongJob = true, true, true
			m.storeSilent() // it answers, and what it says is not believed
		}
	case event.Remembered:
		m.out.Answered(outbox.Remember, e.Err)
		m.noteWritten(e.Err)
		if e.Err == nil {
			m.noteMemory(e.World, m.memory.asked)
		}
	case event.Claiming:
		m.seen.awaitsJob = !m.self.joined
		m.out.Do(action.Say{Line: action.Line{Text: e.Text, Early: m.seen.awaitsJob}})
	case event.Reclaimed:
		m.applyReclaimed(e)
	}
}

// rememberWorld writes down a newer World, and nodes that came under it: after a loss of the store
// a node must know for which nodes to wait, and a copy may be on a spare. A member writes the World
// down before it is ready.
func (m *Machine) rememberWorld() {
	w := m.seen.world
	if w == nil || m.seen.wrongJob || m.out.UnderWay(outbox.Remember) {
		return
	}
	member := m.seat().rank >= 0 || m.leaver()
	newer := w.Generation > m.memory.world
	if newer && member || !newer && slices.Equal(m.spares(), m.memory.spares) {
		return
	}
	c := m.claim()
	if m.out.Request(outbox.Remember, action.Remember{Claim: c}) {
		m.memory.asked = m.spares()
	}
}

// noteMemory takes in that World g is written down, with spares.
func (m *Machine) noteMemory(g schema.Generation, spares []membership.Ref) {
	if g >= m.memory.world {
		m.memory.world, m.memory.spares = g, spares
	}
}

// spares are the registered nodes beside those of the world, now or before under the same world: a
// registration may be gone for a moment, with its lease. A node that announced its departure is
// none, nor is one that was reported lost: its registration was gone by then, so it holds no
// checkpoint that is newer than the head that was read with the report.
func (m *Machine) spares() []membership.Ref {
	o, refs := &m.seen, []membership.Ref{}
	if o.world == nil || o.world.Count > Few {
		return nil
	}
	if m.memory.world == o.world.Generation {
		for _, was := range m.memory.spares {
			left := slices.ContainsFunc(o.snap.Left,
				func(l membership.Left) bool { return l.Node == was.Node })
			switch n := o.snap.Node(was.Node); {
			case n != nil:
				refs = append(refs, n.Ref)
			case !left && !o.snap.Missed[was.Incarnation]:
				refs = append(refs, was)
			}
		}
	}
	for _, n := range o.snap.Nodes {
		named := func(r membership.Ref) bool { return r.Node == n.Node }
		if o.snap.Whole && !slices.ContainsFunc(o.world.Members, named) &&
			!slices.ContainsFunc(refs, named) &&
			len(refs) < mostSpares {
			refs = append(refs, n.Ref)
		}
	}
	slices.SortFunc(refs, func(a, b membership.Ref) int { return strings.Compare(a.Node, b.Node) })
	return refs
}

// mostSpares bounds the number of spares that are written down.
const mostSpares = 64

// noteWritten takes in whether the memory could be written. A disk that does not take it is tried
// more and more rarely, because each try asks it to sync.
func (m *Machine) noteWritten(err error) {
	switch {
	case err != nil:
		if m.memory.backoff == 0 {
			m.say("this node cannot note what it knows of the job (%v): it could not claim it if it died "+
				"with the server", err)
		}
		m.memory.backoff = min(max(2*m.memory.backoff, firstBackoff), mostBackoff)
		m.out.Rest(outbox.Remember, m.memory.backoff)
	case m.memory.backoff > 0:
		m.memory.backoff = 0
		m.say("this node has noted what it knows of the job")
	}
}

// claim is what this node knows of the job.
func (m *Machine) claim() rendezvous.Claim {
	o := &m.seen
	c := rendezvous.Claimed(m.self.node.Node, *m.self.job, o.snap.Wish, o.world)
	c.Known, c.Generation = o.snap.Head, max(c.Generation, o.snap.Fence)
	c.Cluster, c.StoreRev, c.Behind = o.cluster, o.rev, o.behind
	for _, r := range m.spares() {
		c.Spares = append(c.Spares, r.Node)
	}
	return c
}

// reclaimJob claims the job for which the store is behind, while the workers go on.
func (m *Machine) reclaimJob() {
	if m.seen.wrongJob && m.leave == nil {
		c := m.claim()
		c.Lived = true
		m.out.Request(outbox.Reclaim, action.Reclaim{Claim: c})
	}
}

// applyReclaimed: the store holds a job of this name again.
func (m *Machine) applyReclaimed(e event.Reclaimed) {
	m.out.Answered(outbox.Reclaim, e.Err)
	m.out.Rest(outbox.Reclaim, time.Second)
	if m.self.joined && errors.Is(e.Err, store.ErrMoved) {
		m.drop() // the job was removed: its workers end, and joining says so
		return
	}
	if e.Err != nil || m.self.job == nil || !e.Job.Replaces(m.self.job) || !m.self.joined {
		return
	}
	// The workers belong to a job that is no more: they end, and this node joins its successor.
	m.drop()
	m.adoptJob(e.Job)
}

// adoptJob forgets what was known of a job under its old uid.
func (m *Machine) adoptJob(job rendezvous.Job) {
	m.self.job = &job
	m.seen.world, m.seen.snap = nil, rendezvous.Snapshot{}
	m.seen.wrongJob, m.seen.awaySince = false, time.Time{}
	m.seen.behind, m.seen.setBack = false, false
	m.seen.cluster, m.seen.rev = 0, 0
	m.keeper.marks, m.keeper.step, m.keeper.nodes, m.keeper.scope = plan.Observed{}, "", 0, nil
	m.notices.JobRemade()
	m.out.EndRest(outbox.Read)
}
