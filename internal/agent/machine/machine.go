// Package machine decides what one node's agent does. Machine.Decide takes an event and the time
// and returns actions; the package reads no clock, starts no goroutine and touches nothing outside,
// so the same events lead to the same actions. Package runtime carries the actions out.
//
// An event goes through the package once, in the order of Decide: apply takes the facts out of it,
// settle judges which nodes are alive and whether this node still belongs to the world, Drive keeps
// or stops the workers, State names what this node is now, and the function of that state asks for
// what it may.
package machine

import (
	"hash/fnv"
	"time"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/detection"
	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/internal/agent/notice"
	"github.com/elasticd/elastic/internal/agent/outbox"
	"github.com/elasticd/elastic/internal/agent/workers"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
)

// Config is what a Machine must know of its node's settings.
type Config struct {
	LeaseTTL      time.Duration
	StoreCutLimit time.Duration
	WaitTimeout   time.Duration // 0: none
	Hint          string        // how to bring more nodes, shown once while some are missing
	Times         plan.Timeouts
	Warm          bool // workers of a spare may start before a world has it
}

// Machine is the state of one agent. One goroutine owns it.
//
// Facts are kept; what follows from them is derived anew at every event. An event that is late,
// doubled or lost is therefore made good by the next one.
type Machine struct {
	cfg    Config
	now    time.Time // of the event at hand
	out    *outbox.Outbox
	ticked time.Time // when the event before it came

	self    identity
	seen    observation
	peers   *detection.Detection
	said    action.Hello // what peers are answered
	keeper  planning
	workers *workers.Workers
	memory  memory
	notices notice.Notices

	leave   *departure        // this node goes
	over    *event.Result     // it has left, or cannot take part
	quit    bool              // Quit was given
	unready schema.Generation // the newest that was reported as not ready here
}

// departure is why this node goes, and since when.
type departure struct {
	event.Leaving
	since time.Time // when it was asked to; zero: it was registered then
}

// identity is the name and registration of this node.
type identity struct {
	joined  bool // registered, or a member that lost only its registration
	node    membership.Node
	job     *rendezvous.Job
	logs    string
	unkeyed time.Time // its registration is gone since then, and it is not known to have been dropped
	listed  bool      // a world listed this incarnation
	warms   bool      // the others go on without it until its workers wait
}

// observation is what this node read from the store, and whether it can.
type observation struct {
	snap  rendezvous.Snapshot
	world *rendezvous.World // the newest; it never goes back
	seat  seat              // of this incarnation, when it was last searched
	ran   schema.Generation // the newest that is known to have run
	asOf  time.Time         // when the newest read began that has world as its result; a Ready is such a read
	stale bool              // this process stood still: nothing is believed before a new read

	// How far the store had got when it was last believed. A read that began after revAt shows no
	// less.
	cluster uint64
	rev     int64
	revAt   time.Time
	// it showed less all the same: it was wiped, set back or replaced; until the job is made again
	behind  bool
	setBack bool // and it still holds an older state of the job

	awaySince time.Time // the store does not answer since then
	// it answers, but what it holds is not this job as it is: nothing of it is believed
	wrongJob          bool
	unreadable        error // the newest read found a record that this version cannot read
	awaitsJob         bool  // it is outside, and waits until the job is made again
	addressUnverified bool  // the store was away: this node may have another address since

	// A peer announced a generation that is newer than world, and no read since has shown what became
	// of it.
	peerGeneration   schema.Generation
	peerGenerationAt time.Time
	readFailed       bool // a read that was to show it had no answer
}

// New is an agent that has not joined its job.
func New(c Config, now time.Time) *Machine {
	m := &Machine{cfg: c, now: now, ticked: now, workers: workers.New(now), out: outbox.New(),
		peers: detection.New(verdict.DefaultTimeouts(c.LeaseTTL, c.StoreCutLimit))}
	return m
}

const (
	// Tick is how often an agent looks at itself.
	Tick = 250 * time.Millisecond
	// stall is the gap between two events that shows that this process stood still.
	stall = time.Second
)

// Decide applies e and returns the actions to carry out now.
func (m *Machine) Decide(e event.Event, now time.Time) []action.Action {
	m.now = now
	m.out.Begin(now)
	if m.ticked.Add(stall).Before(now) {
		// What was seen before the gap is not believed any more.
		m.seen.stale = true
		m.peers.Stalled()
	}
	m.ticked = now
	m.apply(e)
	m.settle()
	m.workers.Drive(m.workerFacts(), m.out)
	m.act()
	m.tell()
	if m.over != nil && m.workers.Idle() && !m.quit {
		m.quit = true
		m.out.Do(action.Quit{Result: *m.over})
	}
	return m.out.Actions()
}

// settle derives which nodes are alive, and whether this node still has its place.
func (m *Machine) settle() {
	if m.over != nil {
		m.drop()
		return
	}
	m.judge()
	m.checkPeerGeneration()
	if m.seen.stale && m.self.joined {
		m.out.Request(outbox.Read, action.Read{})
		return
	}
	m.keepRegistration()
	m.departFromWorld()
	m.verifyAddress()
}

// member reports whether the newest world lists this incarnation, and at which node rank.
func (m *Machine) member() (int, bool) {
	w := m.seen.world
	if w == nil || !m.self.joined {
		return -1, false
	}
	r := m.seat().rank
	return r, r >= 0 && w.Attempt == m.self.node.Attempt
}

// leaver reports whether the newest world waits for this incarnation to stop.
func (m *Machine) leaver() bool {
	return m.seen.world != nil && m.self.joined && m.seat().leaver
}

// seat is the place of an incarnation in a world: a world of a thousand nodes is searched once for
// it, and not at every event.
type seat struct {
	world  *rendezvous.World
	of     membership.Incarnation
	rank   int // -1: it is no member
	leaver bool
}

// seat is this incarnation's in the newest world.
func (m *Machine) seat() seat {
	w, self := m.seen.world, m.self.node.Ref
	if s := &m.seen.seat; w == nil {
		*s = seat{rank: -1}
	} else if s.world != w || s.of != self.Incarnation {
		*s = seat{world: w, of: self.Incarnation, rank: w.Rank(self), leaver: w.Leaver(self)}
	}
	return m.seen.seat
}

// generation is that of the newest world.
func (m *Machine) generation() schema.Generation {
	if m.seen.world == nil {
		return 0
	}
	return m.seen.world.Generation
}

// ended reports whether the attempt that this node joined is over.
func (m *Machine) ended() bool {
	w := m.seen.world
	return m.self.joined && w != nil && w.Phase.Ended() && w.Attempt == m.self.node.Attempt
}

// jitter is a fixed share of d, different for each incarnation.
func (m *Machine) jitter(d time.Duration) time.Duration {
	h := fnv.New32a()
	h.Write([]byte(m.self.node.Incarnation))
	return time.Duration(h.Sum32()%1000) * d / 1000
}
