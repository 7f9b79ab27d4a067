package machine

import (
	"errors"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"

	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// memory is what this node has written down about the job.
type memory struct {
	world   schema.Generation // the newest World that is written down
	commits bool              // it is written down that the job has commits
	done    bool              // it was tried to write down that the job is done
	backoff time.Duration     // pause before the next write; 0: the last one succeeded
}

const (
	firstBackoff = time.Second
	mostBackoff  = 30 * time.Second
)

func (m *Machine) applyMemory(e message.Event) {
	switch e := e.(type) {
	case message.StoreBehind:
		if o := &m.seen; m.self.joined {
			o.behind, o.setBack = true, true
			m.loseJob()
		}
	case message.Remembered:
		m.out.Answered(message.KindRemember, e.Err)
		m.noteWritten(e.Err)
		m.memory.done = m.memory.done || e.Memory.Done
		if e.Err == nil {
			m.noteMemory(e.Memory)
		}
	case message.Waiting:
		m.seen.awaitsJob = !m.self.joined
		m.out.Do(message.Say{Line: message.Line{Text: e.Text, Early: m.seen.awaitsJob}})
	case message.Remade:
		m.applyRemade(e)
	}
}

// rememberWorld writes down a newer World that has this node, and that the job has its first commit: an
// agent that is started later on another server must know that there is something to lose. A member
// writes a World down before it reports Ready.
func (m *Machine) rememberWorld() {
	w := m.seen.world
	if w == nil || m.seen.wrongJob || m.out.UnderWay(message.KindRemember) {
		return
	}
	now := m.knowsNow()
	if w.Generation > m.memory.world && !(m.seat().rank >= 0 || m.leaver()) ||
		!m.memory.commits && now.Known.Number > 0 {
		m.out.Request(message.KindRemember, message.Remember{Memory: now})
	}
}

// rememberedEnd has written down that the job is done, if it is: a later job of that name, which another
// launcher begins on another server, is then a new one. It reports false while that is being written.
func (m *Machine) rememberedEnd() bool {
	now := m.knowsNow()
	now.Done = m.seen.world.Phase == rendezvous.Done
	if !now.Done || m.memory.done || m.memory.backoff > 0 || now.Known.Number == 0 {
		return true
	}
	m.out.Request(message.KindRemember, message.Remember{Memory: now})
	return false
}

// noteMemory records what was written down.
func (m *Machine) noteMemory(was rendezvous.Memory) {
	m.memory.world = max(m.memory.world, was.Generation)
	m.memory.commits = was.Known.Number > 0
}

// noteWritten records whether the memory could be written. After errors the pauses grow, because
// each try syncs the disk.
func (m *Machine) noteWritten(err error) {
	switch {
	case err != nil:
		if m.memory.backoff == 0 {
			m.say("this node cannot write down the state of the job (%v)", err)
		}
		m.memory.backoff = min(max(2*m.memory.backoff, firstBackoff), mostBackoff)
		m.out.Rest(message.KindRemember, m.memory.backoff)
	case m.memory.backoff > 0:
		m.memory.backoff = 0
		m.say("this node has written down the state of the job")
	}
}

// head is the newest commit that this agent knows.
func (m *Machine) head() checkpoint.Head {
	h := m.self.head
	if m.seen.snap.Head.Number > h.Number {
		h = m.seen.snap.Head
	}
	return h
}

// fence is the newest generation that this agent knows.
func (m *Machine) fence() schema.Generation {
	return max(m.seen.snap.Fence, m.generation(), m.self.fence)
}

// knowsNow is what this agent knows of its job.
func (m *Machine) knowsNow() rendezvous.Memory {
	return rendezvous.Memory{Job: *m.self.job, Generation: m.fence(), Known: m.head()}
}

// knowledge is what this agent tells a member that makes the job again.
func (m *Machine) knowledge() plan.Knowledge {
	k := plan.Knowledge{Node: m.self.node.Node, Remade: m.self.job.Remade, Fence: m.fence(),
		Head: m.head()}
	if w := m.seen.world; w != nil {
		k.Generation, k.Turn = w.Generation, w.Rev
	}
	return k
}

// loseJob records that the store answers, and does not have this job as it is.
func (m *Machine) loseJob() {
	if !m.seen.wrongJob {
		m.out.EndRest(message.KindRemake)
		m.seen.lostSince = m.now
	}
	m.seen.wrongJob = true
	m.storeSilent()
}

const (
	// turnEvery is the time between the turns of two members to make the job again.
	turnEvery = time.Second
	// lastTurn is when every agent may make it again.
	lastTurn = 10 * time.Second
	// lookEvery is how often the store is read while it does not have the job.
	lookEvery = 300 * time.Millisecond
)

// remakeJob brings the job back, while the workers go on. The members take turns by rank; the first one
// that lives and reaches the store makes the job again.
func (m *Machine) remakeJob() {
	if !m.seen.wrongJob || m.leave != nil || !m.self.joined {
		return
	}
	turn := lastTurn
	if w := m.seen.world; w == nil {
		turn = m.jitter(turnEvery)
	} else if rank := m.seat().rank; rank >= 0 {
		turn = min(lastTurn, time.Duration(rank)*turnEvery)
	}
	at := m.seen.lostSince.Add(turn)
	try := !m.now.Before(at)
	if !try {
		m.out.Wake(at)
	}
	m.out.Request(message.KindRemake, message.Remake{
		Me: m.self.node.Ref, Cluster: m.seen.cluster, Rev: m.seen.rev,
		Lost: plan.LostStore{Own: m.knowledge(), Job: *m.self.job, Wish: m.seen.snap.Wish, World: m.seen.world,
			History: m.seen.snap.History}, Try: try})
}

// applyRemade handles what the store shows of the lost job now.
func (m *Machine) applyRemade(e message.Remade) {
	m.out.Answered(message.KindRemake, e.Err)
	if !e.Again {
		m.out.Rest(message.KindRemake, lookEvery)
	}
	if e.Text != "" && e.Text != m.seen.lostText {
		m.seen.lostText = e.Text
		m.say("%s", e.Text)
	}
	switch {
	case !m.self.joined:
	case errors.Is(e.Err, store.ErrMoved) && !e.Again:
		m.drop() // the job is over: its workers end, and joining reports it
	case e.Err == nil && e.Job != nil:
		m.continueJob(*e.Job)
	}
}

// continueJob goes on with the job as the store has it again. If it was made again, its World is the
// one that this node knows, under another uid, so the workers go on. This incarnation registers again.
func (m *Machine) continueJob(job rendezvous.Job) {
	o, made := &m.seen, job.UID != m.self.job.UID
	o.wrongJob, o.behind, o.setBack, o.lostText = false, false, false, ""
	o.cluster, o.rev = 0, 0
	m.out.EndRest(message.KindRead)
	m.storeAnswered()
	if !made {
		return
	}
	m.say("the server had lost job %s; it was made again, and training goes on", job.Name)
	m.self.job, m.self.fence = &job, 0
	switch m.self.head = m.head(); {
	case m.workers.Group == nil:
		o.world, m.self.listed = nil, false // nothing here depends on it: the one that the store has counts
	case o.world != nil:
		w := *o.world
		w.UID, w.Rev = job.UID, 0
		o.world = &w
		if w.Phase == rendezvous.Forming {
			m.workers.Unready(w.Generation)
		}
	}
	o.snap, o.asOf = rendezvous.Snapshot{}, time.Time{}
	m.self.unkeyed, m.self.node.Rev = m.now, 0
	m.memory.commits = false
	m.workers.Joined()
	m.keeper.marks, m.keeper.step, m.keeper.nodes, m.keeper.scope = plan.Observed{}, "", 0, nil
	m.peers.Reregistered(m.now)
	m.peers.StoreWasAway(m.now)
	m.notices.JobRemade()
}

// rejoin drops what was known of another job, or of this one under an earlier uid, before this node
// joins.
func (m *Machine) rejoin(job rendezvous.Job) {
	m.self = identity{job: &job}
	m.seen.world, m.seen.snap = nil, rendezvous.Snapshot{}
	m.seen.wrongJob, m.seen.awaySince = false, time.Time{}
	m.seen.behind, m.seen.setBack = false, false
	m.seen.cluster, m.seen.rev = 0, 0
	m.keeper.marks, m.keeper.step, m.keeper.nodes, m.keeper.scope = plan.Observed{}, "", 0, nil
	m.memory = memory{}
	m.notices.JobRemade()
	m.out.EndRest(message.KindRead)
}
