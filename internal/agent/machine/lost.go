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

// memory is what this node has written down about the job, in case the store loses it.
type memory struct {
	world   schema.Generation // the newest World that is written down
	spares  []membership.Ref  // other nodes registered under that World, also written down
	asked   []membership.Ref  // the same, with a request under way
	ready   []membership.Ref  // the same, with GetReady under way
	backoff time.Duration     // pause before the next write; 0: the last one succeeded
}

const (
	firstBackoff = time.Second
	mostBackoff  = 30 * time.Second
)

func (m *Machine) applyMemory(e event.Event) {
	switch e := e.(type) {
	case event.StoreBehind:
		if o := &m.seen; m.self.joined {
			o.behind, o.setBack = true, true
			m.loseJob()
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

// rememberWorld writes down a newer World, and nodes that registered under it. After the store lost
// the job, this node must know for which nodes to wait, and a spare may have a copy of a
// checkpoint. A member writes a World down before it reports Ready.
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

// noteMemory records that World g was written down, with spares.
func (m *Machine) noteMemory(g schema.Generation, spares []membership.Ref) {
	if g >= m.memory.world {
		m.memory.world, m.memory.spares = g, spares
	}
}

// spares returns the registered nodes that are not in the World. It includes those that were
// registered earlier under the same World, because a registration may be gone for a moment with its
// lease. It excludes a node that announced its departure, and one that was reported lost: the
// registration of that one was gone by then, so it has no checkpoint that is newer than the head
// read with the report.
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

// noteWritten records whether the memory could be written. After errors the pauses grow, because
// each try syncs the disk.
func (m *Machine) noteWritten(err error) {
	switch {
	case err != nil:
		if m.memory.backoff == 0 {
			m.say("this node cannot write down the state of the job (%v): if it dies together with the "+
				"server, it will claim an older state", err)
		}
		m.memory.backoff = min(max(2*m.memory.backoff, firstBackoff), mostBackoff)
		m.out.Rest(outbox.Remember, m.memory.backoff)
	case m.memory.backoff > 0:
		m.memory.backoff = 0
		m.say("this node has written down the state of the job")
	}
}

// claim is what this node would claim now.
func (m *Machine) claim() rendezvous.Claim {
	o := &m.seen
	c := rendezvous.NewClaim(m.self.node.Node, *m.self.job, o.snap.Wish, o.world)
	c.Known, c.Generation = o.snap.Head, max(c.Generation, o.snap.Fence)
	c.GaveUp = m.self.gaveUp
	c.Cluster, c.StoreRev, c.Behind = o.cluster, o.rev, o.behind
	for _, r := range m.spares() {
		c.Spares = append(c.Spares, r.Node)
	}
	return c
}

// loseJob records that the store answers, and does not have this job as it is. If it had the job
// since the last claim, the rest after that claim ends: a node that knows nothing of the job may
// join at any moment, and go on from the older state as long as no claim is there.
func (m *Machine) loseJob() {
	if !m.seen.wrongJob {
		m.out.EndRest(outbox.Reclaim)
	}
	m.seen.wrongJob = true
	m.storeSilent()
}

// reclaimJob claims the job if the store is behind. Workers go on in the meantime. The numbers of a
// commit and of a generation that this node saw before it joined are not given again, even if it has
// read nothing since.
func (m *Machine) reclaimJob() {
	if m.seen.wrongJob && m.leave == nil {
		c := m.claim()
		c.Generation = max(c.Generation, m.self.fence)
		// a World that it saw before it joined, and did not read since, may have gone on
		c.Lived = m.self.world == 0 || m.seen.snap.Job != nil
		c.LearnCommit(m.self.head)
		m.out.Request(outbox.Reclaim, action.Reclaim{Claim: c})
	}
}

// applyReclaimed handles the end of a claim: the store has a job of this name again.
func (m *Machine) applyReclaimed(e event.Reclaimed) {
	m.out.Answered(outbox.Reclaim, e.Err)
	m.out.Rest(outbox.Reclaim, time.Second)
	if m.self.joined && errors.Is(e.Err, store.ErrMoved) {
		m.drop() // the job was removed: its workers end, and joining reports it
		return
	}
	if e.Err != nil || m.self.job == nil || !e.Job.Replaces(m.self.job) || !m.self.joined {
		return
	}
	// The workers belong to the lost job. They end, and this node joins the job that was made
	// again.
	m.drop()
	m.adoptJob(e.Job)
}

// adoptJob drops what was known of the job under its old uid.
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
