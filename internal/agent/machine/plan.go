package machine

import (
	"fmt"
	"time"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/outbox"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

// planning is what this agent needs to take the job's next step, and to know whose turn it is.
type planning struct {
	marks  plan.Observed
	timing status.TimingObserver
	start  startTiming

	activity map[string]sighting // what each node said last that it does
	step     string              // the step that would be taken now, and since when
	stepAt   time.Time

	scope     *follow.Scope // what is followed
	nodes     int           // registered, when that was last counted
	before    int           // how many of them have a lower name
	lookAgain time.Time     // when a node that follows only its own keys next reads everything
}

// sighting is a record of the store, and when it was seen to change.
type sighting struct {
	rev int64
	at  time.Time
}

// deputies is how many nodes plan, the keeper among them. Each waits a second more than the one
// before it.
const deputies = 3

// turn is this agent's place among those that plan: members by rank, then the others by name. Nodes
// in doubt have none.
func (m *Machine) turn() int {
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

// plan takes the next step of the job when it is this agent's turn. The others take the same step
// later if nothing moved. It is never a matter of safety which of them does it.
func (m *Machine) plan() {
	m.follow()
	snap := &m.seen.snap
	if !snap.Whole || !m.self.unkeyed.IsZero() || snap.Rev < m.self.node.Rev || !m.current() ||
		m.leave != nil && m.leave.Now {
		return
	}
	turn := m.turn()
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
	if m.deputyWaits(turn, next) {
		return
	}
	m.take(next)
}

// deputyWaits reports whether a deputy leaves the step to those before it, and wakes it when it
// does not any more.
func (m *Machine) deputyWaits(turn int, next plan.Step) bool {
	k := &m.keeper
	if key := fmt.Sprintf("%T/%d", next, k.marks.ChangedAt.UnixNano()); k.step != key {
		k.step, k.stepAt = key, m.now
	}
	if turn == 0 {
		return false
	}
	at := k.stepAt.Add(time.Duration(turn)*time.Second + m.jitter(time.Second))
	if m.now.Before(at) {
		m.out.Wake(at)
		return true
	}
	return false
}

// claimed reports whether this node has seen claims, or found the store behind: no proposal passes then,
// and each that is sent takes a number of a generation.
func (m *Machine) claimed() bool { return m.seen.wrongJob || len(m.seen.snap.Claims) > 0 }

func (m *Machine) take(next plan.Step) {
	k := &m.keeper
	if _, propose := next.(plan.Propose); propose && m.claimed() {
		return // the end of the claims is news
	}
	take := action.Take{Seen: m.seen.snap, Me: m.self.node, Step: next,
		Fall: k.timing.Timing(m.self.node.Node)}
	if w := m.seen.snap.World; w != nil && w.Previous > 0 {
		take.Idle = k.timing.Idle(m.now)
	}
	if _, run := next.(plan.Run); m.out.Request(outbox.Step, take) && run {
		k.start = startTiming{sign: k.timing.Sign(), timing: take.Fall}
	}
}

// still is how long bytes may stand still that others wait for: a transfer is given up before.
const still = 30 * time.Second

// noteActivity remembers when each node last said what it does.
func (m *Machine) noteActivity(said []rendezvous.Activity) {
	was := m.keeper.activity
	m.keeper.activity = map[string]sighting{}
	for _, d := range said {
		if x, ok := was[d.Node]; ok && x.rev == d.Rev {
			m.keeper.activity[d.Node] = x
		} else {
			m.keeper.activity[d.Node] = sighting{d.Rev, m.now}
		}
	}
}

// moving is what nodes do, without what a node said long ago and did not take back: it may be gone.
func (m *Machine) moving() (moving []rendezvous.Activity) {
	for _, d := range m.seen.snap.Doing {
		if d.Kind == "unreadable" || m.now.Sub(m.keeper.activity[d.Node].at) < still {
			moving = append(moving, d)
		}
	}
	return moving
}

// current reports whether the snapshot shows the newest known world: a plan on an older one is
// moot.
func (m *Machine) current() bool {
	known, shown := m.seen.world, m.seen.snap.World
	if known == nil || shown == nil {
		return known == nil && shown == nil
	}
	return known.Rev <= shown.Rev
}
