package machine

import (
	"errors"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// memory is what this node has written down of the job, for the case that the store loses it.
type memory struct {
	world   schema.Generation // the newest World that is written down
	backoff time.Duration     // before the next try to write; 0: the last one succeeded
}

const (
	firstBackoff = time.Second
	mostBackoff  = 30 * time.Second
)

func (m *Machine) applyMemory(e Event) {
	switch e := e.(type) {
	case Remembered:
		m.answered(slotRemember, e.Err)
		m.noteWritten(e.Err)
		if e.Err == nil {
			m.memory.world = max(m.memory.world, e.World)
		}
	case Claiming:
		m.seen.awaitsJob = !m.self.joined
		m.do(Say{Line{Text: e.Text, Early: m.seen.awaitsJob}})
	case Reclaimed:
		m.applyReclaimed(e)
	}
}

// rememberWorld writes down a newer World than the one that is: a spare, too, must know whom to wait
// for. A member does so before it is ready.
func (m *Machine) rememberWorld() {
	w := m.seen.world
	if w == nil || m.seen.wrongJob || w.Generation <= m.memory.world || w.Rank(m.self.node.Ref) >= 0 || m.leaver() {
		return
	}
	m.request(slotRemember, Remember{m.claim()})
}

// noteWritten takes in whether the memory could be written. A disk that does not take it is tried more
// and more rarely, because each try asks it to sync.
func (m *Machine) noteWritten(err error) {
	switch {
	case err != nil:
		if m.memory.backoff == 0 {
			m.say("this node cannot note what it knows of the job (%v): it could not claim it if it died with the server", err)
		}
		m.memory.backoff = min(max(2*m.memory.backoff, firstBackoff), mostBackoff)
		m.rest(slot{kind: slotRemember}, m.memory.backoff)
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
	return c
}

// reclaimJob claims the job for which the store is behind, while the workers go on.
func (m *Machine) reclaimJob() {
	if m.seen.wrongJob && m.leave == nil {
		m.request(slotReclaim, Reclaim{m.claim()})
	}
}

// applyReclaimed: the store holds a job of this name again.
func (m *Machine) applyReclaimed(e Reclaimed) {
	m.answered(slotReclaim, e.Err)
	m.rest(slot{kind: slotReclaim}, time.Second)
	if m.self.joined && errors.Is(e.Err, store.ErrMoved) {
		m.drop() // the job was removed: its workers end, and joining says so
		return
	}
	if e.Err != nil || m.self.job == nil || !e.Job.Follows(m.self.job.UID) || !m.self.joined {
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
	m.told.waiting = 0 // a revision of the store that was lost
	delete(m.requests.rests, slot{kind: slotRead})
}
