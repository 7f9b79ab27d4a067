package machine

import (
	"fmt"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

// planning is what this agent needs to take the next step of the job when it is its turn.
type planning struct {
	marks  plan.Observed
	timing status.TimingObserver
	start  startTiming

	activity map[string]Activity // the last activity that each node reported
	step     string              // the step that is due, and since when
	stepAt   time.Time

	scope     *follow.Scope // the scope that is followed
	nodes     int           // registered nodes at the last count
	before    int           // how many of them have a lower name
	lookAgain time.Time     // when a node that follows only its own keys next reads everything
}

// Activity is a record of the store, and when it last changed.
type Activity struct {
	rev int64
	at  time.Time
}

// deputies is the number of nodes, including the keeper, that are always ready to plan: in a large job
// only they follow all records and ask nodes in doubt. Each node waits a second longer than the one
// before it, also beyond them.
const deputies = 3

// planOrder is this agent's place among the nodes that plan: members by rank, then the others by
// name. Nodes in doubt have no place.
func (m *Machine) planOrder() int {
	at := 0
	for _, s := range m.peers.View.Members {
		if s.Same(m.self.node.Ref) {
			return at
		}
		if s.State == verdict.Alive && s.Registered {
			at++
		}
	}
	for _, n := range m.peers.View.Others {
		if n.Incarnation == m.self.node.Incarnation {
			return at
		}
		at++
	}
	return at
}

// plan takes the next step of the job if it is this agent's turn. The others take the same step
// later if nothing changed. Safety does not depend on which node takes it.
func (m *Machine) plan() {
	m.follow()
	snap := &m.seen.snap
	if !snap.Whole || !m.self.unkeyed.IsZero() || snap.Rev < m.self.node.Rev || !m.current() ||
		m.leave != nil && m.leave.Now {
		return
	}
	turn := m.planOrder()
	if turn < deputies || len(m.peers.Suspects()) > 0 {
		m.peers.Probe(m.peerFacts(), m.out)
		m.peers.AwaitAnswers(m.peerFacts(), m.out)
	}
	shown := *snap
	shown.Doing = m.moving()
	next := plan.Next(plan.Facts{Snapshot: &shown, View: m.peers.View, Observed: m.keeper.marks,
		Timeouts: m.cfg.Times, Now: m.now})
	m.keeper.timing.Observe(status.Look{Snapshot: snap, View: m.peers.View, Own: m.sign(),
		Step: next, Now: m.now})
	if wait, ok := next.(plan.Nothing); ok {
		if wait.Until.After(m.now) {
			m.out.Wake(wait.Until)
		}
		m.keeper.step = ""
		return
	}
	if m.mustWait(turn, next) {
		return
	}
	m.take(next)
}

// mustWait reports whether this node still leaves the step to the nodes before it. It asks for a wake at
// the end of that time.
func (m *Machine) mustWait(turn int, next plan.Step) bool {
	k := &m.keeper
	if key := fmt.Sprintf("%T/%d", next, k.marks.ChangedAt.UnixNano()); k.step != key {
		k.step, k.stepAt = key, m.now
	}
	var at time.Time
	if turn > 0 {
		at = k.stepAt.Add(time.Duration(turn)*time.Second + m.jitter(time.Second))
	}
	if m.now.Before(at) {
		m.out.Wake(at)
		return true
	}
	return false
}

// take sends the request of a step.
func (m *Machine) take(next plan.Step) {
	k := &m.keeper
	if m.seen.wrongJob {
		return
	}
	take := message.Take{Seen: m.seen.snap, Me: m.self.node, Step: next,
		Timing: k.timing.Timing(m.self.node.Node)}
	if w := m.seen.snap.World; w != nil && w.Previous > 0 {
		take.Idle = k.timing.Idle(m.now)
	}
	if _, run := next.(plan.Run); m.out.Request(message.KindStep, take) && run {
		k.start = startTiming{sign: k.timing.Sign(), timing: take.Timing}
	}
}

// maxStandstill is how long a transfer may move no bytes and still extend a limit: it is given up
// before that.
const maxStandstill = 30 * time.Second

// noteActivity records when each node last changed its activity.
func (m *Machine) noteActivity(said []rendezvous.Activity) {
	was := m.keeper.activity
	m.keeper.activity = map[string]Activity{}
	for _, d := range said {
		if x, ok := was[d.Node]; ok && x.rev == d.Rev {
			m.keeper.activity[d.Node] = x
		} else {
			m.keeper.activity[d.Node] = Activity{d.Rev, m.now}
		}
	}
}

// moving returns the activities of nodes, except those that have not changed for long: their nodes
// may be gone.
func (m *Machine) moving() (moving []rendezvous.Activity) {
	for _, d := range m.seen.snap.Doing {
		if d.Kind == "unreadable" || m.now.Sub(m.keeper.activity[d.Node].at) < maxStandstill {
			moving = append(moving, d)
		}
	}
	return moving
}

// current reports whether the snapshot shows the newest known World. A plan on an older one has no
// use.
func (m *Machine) current() bool {
	known, shown := m.seen.world, m.seen.snap.World
	if known == nil || shown == nil {
		return known == nil && shown == nil
	}
	return known.Rev <= shown.Rev
}
