package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// few is the number of nodes up to which everybody follows everything.
const few = 8

// deputies also plan; each waits a second more than the one before it.
const deputies = 3

// judge says who is alive, by the snapshot and by what this agent saw itself.
func (m *Machine) judge(now time.Time) {
	if !m.in || !m.snap.Whole {
		m.view = membership.View{}
		return
	}
	refs := m.refs()
	absent := make(map[membership.Incarnation]time.Time, len(m.evidence.Absent))
	for _, r := range refs {
		if n := m.snap.Node(r.Node); n == nil || n.Incarnation != r.Incarnation {
			since, known := m.evidence.Absent[r.Incarnation]
			if !known {
				since = now
			}
			absent[r.Incarnation] = since
		}
		// What this agent saw itself counts once its record is there: else it would hold a world for a node
		// that everybody else takes for alive.
		if _, ok := m.mine[r.Incarnation]; ok {
			if m.evidence.Holds[r.Node] == nil {
				m.evidence.Holds[r.Node] = map[string]time.Time{}
			}
			m.evidence.Holds[r.Node][m.me.Node] = now
		}
	}
	m.evidence.Absent = absent
	m.evidence.Isolated = m.isolated(now)
	m.view = membership.Judge(refs, m.snap.Nodes, m.snap.Left, m.snap.Suspects, m.evidence, m.limits, now)
	m.view.Rev = m.snap.Rev
	m.crowded(membership.Crowd(m.view, len(refs)), now)
	m.marks.Observe(&m.snap, m.view, now)
}

// crowded makes silence void for a window when many come into doubt at once. Once: what still holds when it has passed
// counts, also when a verdict lapses until they are dialled again.
func (m *Machine) crowded(crowd bool, now time.Time) {
	doubts, news := map[membership.Doubt]bool{}, false
	for _, s := range m.view.Members {
		for _, d := range s.Doubts() {
			doubts[d] = true
			news = news || s.State != membership.Gone && !m.doubts[d]
		}
	}
	if crowd && !m.crowd && news && m.evidence.Void.Before(now) {
		m.evidence.Void = now.Add(m.limits.Window)
	}
	m.crowd, m.doubts = crowd, doubts
}

// refs are the members and leavers of the world that the snapshot shows.
func (m *Machine) refs() []membership.Ref {
	w := m.snap.World
	if w == nil {
		return nil
	}
	return append(w.Members[:len(w.Members):len(w.Members)], w.Leavers...)
}

// silence counts whom this agent dialled lately, in vain, and reports whether anybody answered.
func (m *Machine) silence(now time.Time) (silent int, answered bool) {
	for inc, a := range m.evidence.Answers {
		if inc == m.me.Incarnation || now.Sub(a.At) > m.limits.Fresh {
			continue
		}
		if a.Kind == membership.NoAnswer {
			silent++
		} else {
			answered = true
		}
	}
	return silent, answered
}

// isolated reports whether several others were dialled and none answered: then it may be this node
// that is cut off, and silence proves nothing.
func (m *Machine) isolated(now time.Time) bool {
	silent, answered := m.silence(now)
	return silent >= 2 && !answered
}

// witnesses are some of those whom nobody doubts, to be dialled while others are silent. Who is alive is not dialled
// otherwise: where two are lost at once every node that is left would take itself for isolated.
func (m *Machine) witnesses(now time.Time) (refs []membership.Ref) {
	if silent, _ := m.silence(now); silent < 2 {
		return nil
	}
	n := len(m.snap.Nodes)
	for i := range n {
		r := m.snap.Nodes[(i+int(now.Unix()))%n].Ref // not the same ones for ever: they may be lost as well
		if seen := m.view.Find(r); r.Incarnation != m.me.Incarnation && (seen == nil || seen.State == membership.Alive) && len(refs) < MaxWitnesses {
			refs = append(refs, r)
		}
	}
	return refs
}

// turn is this agent's place among those who plan: members by rank, then the others by name; who is in
// doubt has none.
func (m *Machine) turn() int {
	at := 0
	for _, s := range m.view.Members {
		if s.Same(m.me.Ref) {
			return at
		}
		if s.State == membership.Alive && s.Mine {
			at++
		}
	}
	for _, n := range m.view.Others {
		if n.Incarnation == m.me.Incarnation {
			return at
		}
		at++
	}
	return at
}

// keep takes the next step of the plan when it is this agent's turn. The others take the same step
// later, if nothing moved: who does it is never a matter of safety.
func (m *Machine) keep(now time.Time, a *actions) {
	m.follow(now, a)
	if !m.in || !m.snap.Whole || !m.lapsed.IsZero() || m.snap.Rev < m.me.Rev || !m.current() || m.leave != nil && m.leave.Now {
		return
	}
	turn := m.turn()
	m.ask(now, a, turn)
	seen := m.snap
	seen.Doing = m.moving(now)
	step := rendezvous.Plan(&seen, m.view, m.marks, m.cfg.Times, now)
	m.fall.Observe(&m.snap, m.view, m.sign(), step, now)
	if wait, ok := step.(rendezvous.Nothing); ok {
		if wait.Until.After(now) {
			a.wake(wait.Until)
		}
		m.step = ""
		return
	}
	if key := fmt.Sprintf("%T/%d", step, m.marks.Moved.UnixNano()); m.step != key {
		m.step, m.stepAt = key, now
	}
	if turn > 0 {
		at := m.stepAt.Add(time.Duration(turn)*time.Second + m.jitter(time.Second))
		if now.Before(at) {
			a.wake(at)
			return
		}
	}
	take := Take{Seen: m.snap, Me: m.me, Step: step, Fall: m.fall.Waterfall(m.me.Node)}
	if w := m.snap.World; w != nil && w.Previous > 0 {
		take.Idle = now.Sub(m.since)
	}
	if _, run := step.(rendezvous.Run); m.request(a, now, "step", take) && run {
		m.turning = turning{sign: m.fall.Sign(), fall: take.Fall}
	}
}

// still is how long bytes may stand still that others wait for: a transfer is given up before.
const still = 30 * time.Second

// note remembers when each node last said what it does.
func (m *Machine) note(said []rendezvous.Doing, now time.Time) {
	was := m.doing
	m.doing = map[string]sighting{}
	for _, d := range said {
		if x, ok := was[d.Node]; ok && x.rev == d.Rev {
			m.doing[d.Node] = x
		} else {
			m.doing[d.Node] = sighting{d.Rev, now}
		}
	}
}

// moving is what nodes do, without what one of them said long ago and nobody took back: it may be gone.
func (m *Machine) moving(now time.Time) (moving []rendezvous.Doing) {
	for _, d := range m.snap.Doing {
		if d.What == "unreadable" || now.Sub(m.doing[d.Node].at) < still {
			moving = append(moving, d)
		}
	}
	return moving
}

// current reports whether the snapshot shows the newest known world: a plan on an older one is moot.
func (m *Machine) current() bool {
	if m.world == nil || m.snap.World == nil {
		return m.world == nil && m.snap.World == nil
	}
	return m.world.Rev <= m.snap.World.Rev
}

// follow sets what is followed: everything for the few who plan and who suspect, until what these wrote is seen
// gone; else the own world and registration, with a look at everything now and then.
func (m *Machine) follow(now time.Time, a *actions) {
	if !m.in {
		return
	}
	scope := rendezvous.All
	n := m.nodes
	if m.world != nil {
		n = max(n, m.world.Count)
	}
	if n > few && len(m.mine) == 0 && len(m.written) == 0 && !m.owes() && !m.among(deputies) {
		scope = rendezvous.Own
		if now.After(m.peekAt) {
			scope = rendezvous.All
			if now.After(m.peekAt.Add(3 * time.Second)) {
				every := time.Duration(max(n, 30)) * time.Second
				m.peekAt = now.Add(every + m.jitter(every))
				scope = rendezvous.Own
			}
		}
	}
	if m.following == nil || *m.following != scope {
		m.following = &scope
		if scope == rendezvous.Own {
			m.snap.Whole = false
		}
		a.do("", Follow{scope})
	}
}

// among reports whether this node is one of the first k in rank order or, before there is a world, by name.
func (m *Machine) among(k int) bool {
	if m.world != nil && !m.world.Phase.Ended() && len(m.world.Members) > 0 {
		r := m.world.Rank(m.me.Ref)
		return r >= 0 && r < k
	}
	if !m.snap.Whole {
		return m.following == nil || *m.following == rendezvous.All
	}
	for i, n := range m.snap.Nodes {
		if n.Incarnation == m.me.Incarnation {
			return i < k
		}
	}
	return true
}

// ask dials who is in doubt, those who suspect it, and who can tell that this node is not isolated: a verdict needs
// answers of now.
func (m *Machine) ask(now time.Time, a *actions, turn int) {
	if turn >= deputies && len(m.mine) == 0 {
		return
	}
	for _, r := range slices.Concat(m.view.Ask, m.witnesses(now)) {
		slot := "probe/" + string(r.Incarnation)
		if at, ok := m.probed[r.Incarnation]; ok && now.Sub(at) < 500*time.Millisecond {
			a.wake(at.Add(500 * time.Millisecond))
			continue
		}
		var watchers []membership.Ref
		for _, s := range m.snap.Suspects {
			if s.Node == r.Node && s.Incarnation == r.Incarnation && s.By != m.me.Node {
				if n := m.snap.Node(s.By); n != nil && n.Incarnation == s.Watcher {
					watchers = append(watchers, n.Ref)
				}
			}
		}
		if m.request(a, now, slot, Probe{About: r, Watchers: watchers}) {
			m.probed[r.Incarnation] = now
		}
	}
}
