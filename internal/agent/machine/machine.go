// Package machine decides what one node's agent does. Machine.Decide takes an event and the time
// and returns actions; the package reads no clock, starts no goroutine and touches nothing outside,
// so the same events lead to the same actions. Package agent carries the actions out.
//
// Each event goes through Decide once, in this order. apply takes the facts out of it. settle
// judges which nodes are alive, and whether this node still belongs to the World. Drive keeps or
// stops the workers. State names the state of this node, and the function of that state asks for
// actions.
package machine

import (
	"hash/fnv"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/internal/agent/workers"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
)

// Config has the settings of its node that a Machine needs.
type Config struct {
	LeaseTTL    time.Duration
	WaitTimeout time.Duration // 0: none
	Hint        string        // how to bring more nodes, shown once while some are missing
	Times       plan.Timeouts
	Warm        bool // workers of a spare may start before a World has it
}

// Machine is the state of one agent. One goroutine owns it.
//
// It keeps facts, and derives everything else at every event. So the next event corrects the effect
// of one that was late, repeated or lost.
type Machine struct {
	cfg    Config
	now    time.Time // time of the current event
	out    *message.Outbox
	ticked time.Time // time of the event before

	self    identity
	seen    observation
	peers   *Detection
	said    message.Hello // the newest answer to peers
	keeper  planning
	workers *workers.Workers
	memory  memory
	notices message.Notices

	leave   *departure        // this node leaves
	over    *message.Result   // it has left, or cannot take part
	quit    bool              // Quit was given
	took    bool              // a world listed an incarnation of this agent: it trained, or was about to
	unready schema.Generation // the newest generation for which this node was reported unready
}

// departure is why this node leaves, and since when.
type departure struct {
	message.Leaving
	since time.Time // when it was asked to leave; zero: it was registered then
}

// identity is the name and registration of this node.
type identity struct {
	joined  bool // registered, or a member that lost only its registration
	node    membership.Node
	job     *rendezvous.Job
	head    checkpoint.Head   // the newest commit of the job before this node joined
	fence   schema.Generation // likewise
	logs    string
	unkeyed time.Time // since when its registration is missing, or must be written again; zero: it is there
	listed  bool      // a world listed this incarnation
	warms   bool      // the others go on without it until PublishWarm
	unable  bool      // the user was told why PublishWarm fails
}

// observation is what this node read from the store, and whether the store answers.
type observation struct {
	snap  rendezvous.Snapshot
	world *rendezvous.World // the newest World; it never goes back
	seat  seat              // place of this incarnation in world
	ran   schema.Generation // the newest generation known to have run
	asOf  time.Time         // when the newest read began whose result is world; Ready counts as a read
	stale bool              // this process stood still, so nothing counts before a new read

	// Cluster and revision of the newest accepted read. A read that began after revAt must not show
	// less.
	cluster uint64
	rev     int64
	revAt   time.Time
	// the store showed less, so it was wiped, set back or replaced; until the job is made again
	behind  bool
	setBack bool // the store still has an older state of the job
	// since when it is known that the store does not have the job, and what the user was told of that
	lostSince time.Time
	lostText  string

	awaySince time.Time // since when the store does not answer
	// the store answers, but does not have this job as it is: none of it is accepted
	wrongJob          bool
	unreadable        error // the newest read found a record that this version cannot decode
	awaitsJob         bool  // this node is outside, and waits until the job is made again
	addressUnverified bool  // the store was away, and this node's address may have changed since

	// A peer announced a generation that is newer than world, and no later read has shown it or its
	// absence.
	peerGeneration   schema.Generation
	peerGenerationAt time.Time
	readFailed       bool // the read for it had no answer
}

// New returns the machine of an agent that has not joined its job.
func New(c Config, now time.Time) *Machine {
	m := &Machine{cfg: c, now: now, ticked: now, workers: workers.New(now), out: message.NewOutbox(),
		peers: newDetection(verdict.DefaultTimeouts(c.LeaseTTL))}
	return m
}

const (
	// Tick is the interval of Ticked events.
	Tick = 250 * time.Millisecond
	// stall is the gap between two events after which this process counts as having stood still.
	stall = time.Second
)

// Decide applies e and returns the actions to carry out now.
func (m *Machine) Decide(e message.Event, now time.Time) []message.Action {
	m.now = now
	m.out.Begin(now)
	if m.ticked.Add(stall).Before(now) {
		// Observations from before the gap do not count any more.
		m.seen.stale = true
		m.peers.Stalled()
	}
	m.ticked = now
	m.apply(e)
	m.settle()
	m.workers.Drive(m.workerFacts(), m.out)
	m.runState()
	m.tell()
	if m.over != nil && m.workers.Idle() && !m.quit {
		m.quit = true
		m.out.Do(message.Quit{Result: *m.over})
	}
	return m.out.Actions()
}

// settle derives which nodes are alive, and whether this node still belongs to the World.
func (m *Machine) settle() {
	if m.over != nil {
		m.drop()
		return
	}
	m.judge()
	m.checkPeerGeneration()
	if m.seen.stale && m.self.joined {
		m.out.Request(message.KindRead, message.Read{})
		return
	}
	m.keepRegistration()
	m.departFromWorld()
	m.verifyAddress()
}

// member reports whether the newest World has this incarnation as a member, and its node rank.
func (m *Machine) member() (int, bool) {
	w := m.seen.world
	if w == nil || !m.self.joined {
		return -1, false
	}
	r := m.seat().rank
	return r, r >= 0 && w.Attempt == m.self.node.Attempt
}

// leaver reports whether the newest World waits until this incarnation has stopped.
func (m *Machine) leaver() bool {
	return m.seen.world != nil && m.self.joined && m.seat().leaver
}

// seat is the place of an incarnation in a World. It is kept, so that a World of a thousand nodes
// is not searched at every event.
type seat struct {
	world  *rendezvous.World
	of     membership.Incarnation
	rank   int // -1: it is no member
	leaver bool
}

// seat returns the place of this incarnation in the newest World.
func (m *Machine) seat() seat {
	w, self := m.seen.world, m.self.node.Ref
	if s := &m.seen.seat; w == nil {
		*s = seat{rank: -1}
	} else if s.world != w || s.of != self.Incarnation {
		*s = seat{world: w, of: self.Incarnation, rank: w.Rank(self), leaver: w.Leaver(self)}
	}
	return m.seen.seat
}

// generation returns the generation of the newest World.
func (m *Machine) generation() schema.Generation {
	if m.seen.world == nil {
		return 0
	}
	return m.seen.world.Generation
}

// ended reports whether the attempt that this node joined has ended.
func (m *Machine) ended() bool {
	w := m.seen.world
	return m.self.joined && w != nil && w.Phase.Ended() && w.Attempt == m.self.node.Attempt
}

// jitter returns a fixed share of d, different for each incarnation.
func (m *Machine) jitter(d time.Duration) time.Duration {
	h := fnv.New32a()
	h.Write([]byte(m.self.node.Incarnation))
	return time.Duration(h.Sum32()%1000) * d / 1000
}
