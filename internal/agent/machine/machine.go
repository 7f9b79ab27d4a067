// Package machine decides what one node's agent does. Machine.Decide takes an event and the time and
// returns actions; the package reads no clock, starts no goroutine and touches nothing outside, so the
// same events lead to the same actions. Package runtime carries the actions out.
package machine

import (
	"hash/fnv"
	"maps"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// Machine is the state of one agent. Its owner is one goroutine (run.go); nothing in it blocks, reads
// a clock or touches anything outside: Decide is a function of the Machine, an event and now.
//
// Facts are folded in by the event; what follows from them is derived anew every time (act). So an
// event that is late, doubled or lost is made good by the next one, whichever it is.
type Machine struct {
	cfg Config

	// Who this node is. in: registered, or a member that lost its registration only.
	in       bool
	me       membership.Node
	job      *rendezvous.Job
	logs     string
	ttl      time.Duration
	lapsed   time.Time // its lease is gone since, and it is not known to have been dropped
	belonged bool      // a world listed this incarnation

	// What it knows. world is the newest World, which never goes back.
	snap     rendezvous.Snapshot
	world    *rendezvous.World
	asOf     time.Time         // the newest read that world is the result of was begun then; a Ready is one
	stale    bool              // this process stood still: nothing is believed before a new read
	foreign  bool              // the store holds another job of that name, or none: trouble, not an end
	claiming bool              // it waits outside for the job to be made again
	told     schema.Generation // larger than that of world: a peer says so, and no read since has said what became of it
	toldAt   time.Time
	alone    bool      // a read that was to say so had no answer
	away     time.Time // the store does not answer since
	astray   bool      // it did not: this node may have another address since
	ticked   time.Time

	remembered schema.Generation // the newest World that a claim to come would name
	forgetful  time.Duration     // how long it rests before it tries to note it again; 0: the last time it could

	evidence membership.Evidence
	limits   membership.Limits
	view     membership.View
	marks    rendezvous.Marks
	fall     rendezvous.Fall
	turning  turning
	crowd    bool                              // many were in doubt when it was last judged
	doubts   map[membership.Doubt]bool         // and why, or why they are gone
	mine     map[membership.Incarnation]Signal // whom this agent suspects
	written  map[membership.Incarnation]bool   // and what it wrote of it
	wrote    int64                             // revision of the newest of that which is not known to be gone; 0: none
	probed   map[membership.Incarnation]time.Time
	watched  []membership.Ref
	hello    Hello

	following *rendezvous.Scope
	nodes     int       // registered, when everything was last looked at
	peekAt    time.Time // when an ordinary node next looks at everything

	doing  map[string]sighting // what nodes said last that they do
	step   string              // what the keeper would do, and since when
	stepAt time.Time

	// Its workers.
	crew    *crew
	floor   schema.Generation // no generation up to here is started any more
	ready   schema.Generation // it reported Ready for
	ports   []int
	resume  Resume
	exitRev int64 // ModRevision of its exit record of exitGen
	exitGen schema.Generation
	exited  *rendezvous.Exit // what that record says
	stopMS  int64            // how long the newest stop of workers here took
	idleAt  time.Time        // and when nothing of them was left; zero: there were none

	leave *Leaving
	over  *Result
	quit  bool
	since time.Time // no world has run here since
	busy  map[string]schema.Generation
	again map[string]time.Time // not before: a request that failed

	lines lines
}

// sighting is a record of the store, and when it was seen to change.
type sighting struct {
	rev int64
	at  time.Time
}

// crew is the workers of one generation on this node.
type crew struct {
	world    rendezvous.World
	started  bool
	codes    []*int
	failed   *WorkerExit
	failRev  int64 // the world under which its failure was reported
	halt     Halt
	through  time.Time // every worker ended with 0
	dead     bool      // nothing of it is left
	closed   bool      // nor of its captures
	closing  time.Time
	last     bool // what they left complete is being saved
	haltedAt time.Time
	began    time.Time
}

// Halt is how far the end of a group of workers was driven. It only rises.
type Halt int

const (
	NoHalt     Halt = iota
	HaltAsked       // asked to save and end
	HaltEnded       // SIGTERM, and SIGKILL after ShortGrace
	HaltKilled      // SIGKILL
)

// Leaving is why this node goes.
type Leaving struct {
	Reason membership.Reason
	Status int
	Now    bool  // a second signal: nothing is waited for
	Err    error // what it cannot do here

	asked time.Time // since when; zero: it was registered then
}

// Result is how the agent ended.
type Result struct {
	Status int
	Err    error
}

// New is an agent that has not entered its job.
func New(c Config, now time.Time) *Machine {
	m := &Machine{cfg: c, ticked: now, since: now,
		limits: membership.DefaultLimits(c.LeaseTTL, c.StoreCutLimit),
		busy:   map[string]schema.Generation{}, again: map[string]time.Time{}}
	m.forgetEvidence()
	return m
}

func (m *Machine) forgetEvidence() {
	m.evidence = membership.Evidence{Answers: map[membership.Incarnation]membership.Answered{},
		Holds: map[string]map[string]time.Time{}, Absent: map[membership.Incarnation]time.Time{}, Void: m.evidence.Void}
	m.mine, m.written = map[membership.Incarnation]Signal{}, map[membership.Incarnation]bool{}
	m.probed = map[membership.Incarnation]time.Time{}
	m.watched = nil // who watches tells again what it holds
}

// stall is the gap between two ticks that says that this process stood still.
const (
	Tick  = 250 * time.Millisecond
	stall = time.Second
	fresh = time.Second // how old the read may be that a start rests on
)

// Decide folds e into the facts and says what is to be done now.
func (m *Machine) Decide(e Event, now time.Time) []Action {
	if m.ticked.Add(stall).Before(now) {
		// Whatever else was seen before this moment is from before the gap.
		m.stale = true
		m.evidence.OnTime = time.Time{}
		m.forgetEvidence()
	}
	m.ticked = now
	maps.DeleteFunc(m.again, func(_ string, at time.Time) bool { return !now.Before(at) })
	var a actions
	m.fold(e, now, &a)
	m.act(now, &a)
	return a.list
}

// act derives what is to be done from the facts.
func (m *Machine) act(now time.Time, a *actions) {
	if m.over != nil {
		m.finish(now, a)
		return
	}
	m.judge(now)
	m.hear(now, a)  // a newer generation
	m.serve(now, a) // workers: keep or stop
	if m.stale && m.in {
		m.request(a, now, "read", Read{})
		m.leaving(now, a)
		return
	}
	m.locate(now, a)
	m.register(now, a)
	m.remember(now, a)
	m.reclaim(now, a) // a job that the store has lost
	m.report(now, a)  // exits and failures
	m.barrier(now, a) // ready
	m.start(now, a)
	m.keep(now, a) // plan and propose
	m.recall(a)
	m.detect(now, a)
	m.leaving(now, a)
	m.ending(now, a)
	m.enter(now, a)
	m.tell(now, a)
}

// request emits an action that comes back as an event, unless one of its kind is under way.
func (m *Machine) request(a *actions, now time.Time, slot string, act Action) bool {
	return m.requestFor(a, now, slot, 1, act)
}

// requestFor is request for a generation: a newer one replaces an older one that is under way.
func (m *Machine) requestFor(a *actions, now time.Time, slot string, g schema.Generation, act Action) bool {
	if m.busy[slot] >= g {
		return false
	}
	if at, ok := m.again[slot]; ok && now.Before(at) {
		a.wake(at)
		return false
	}
	m.busy[slot] = g
	a.do(slot, act)
	return true
}

// Rest is how long a request that was refused, or whose guards moved on, is not sent again: the news of what
// moved is on its way, and takes "step" out of its rest.
const Rest = 200 * time.Millisecond

// answered frees the slot of a request; after an error it rests a little.
func (m *Machine) answered(slot string, g schema.Generation, err error, now time.Time) {
	if m.busy[slot] == g {
		delete(m.busy, slot)
	}
	delete(m.again, slot)
	if err != nil {
		m.again[slot] = now.Add(Rest)
	}
}

// member reports whether the newest world lists this incarnation, and at which node rank.
func (m *Machine) member() (int, bool) {
	if m.world == nil || !m.in {
		return -1, false
	}
	r := m.world.Rank(m.me.Ref)
	return r, r >= 0 && m.world.Attempt == m.me.Attempt
}

// jitter is a fixed share of d, different for each agent.
func (m *Machine) jitter(d time.Duration) time.Duration {
	h := fnv.New32a()
	h.Write([]byte(m.me.Incarnation))
	return time.Duration(h.Sum32()%1000) * d / 1000
}
