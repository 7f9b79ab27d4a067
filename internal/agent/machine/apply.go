package machine

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// fold takes the facts out of an event. What follows from them is act's business.
func (m *Machine) fold(e Event, now time.Time, a *actions) {
	switch e := e.(type) {
	case Saw:
		m.saw(e, now, a)
	case Entered:
		m.entered(e, now, a)
	case Renewed:
		m.renewed(e, now)
	case Registered:
		if !m.is(e.As) {
			if e.Err == nil {
				a.do("", Forget{e.Lease}) // nobody lives on it
			}
			return
		}
		m.answered("register", 1, e.Err, now)
		switch {
		case e.Err == nil:
			a.do("", Renew{e.Lease, e.TTL})
			m.me.Rev, m.me.Lease, m.ttl, m.lapsed = e.Rev, e.Lease, e.TTL, time.Time{}
			m.evidence.OnTime = now
			clear(m.written) // it went with the lease
			m.wrote = 0
		case rendezvous.Moved(e.Err):
			m.lapsed = now // read again what the world says now
		}
	case Located:
		m.answered("locate", 1, nil, now)
		if m.astray = false; m.in && e.Address != m.me.Address {
			m.drop(a) // nobody reaches it where its registration says, which is for good: it joins anew
		}
	case Remembered:
		m.answered("remember", 1, e.Err, now)
		if m.noted(e.Err, now, a); e.Err == nil {
			m.remembered = max(m.remembered, e.World)
		}
	case Claiming:
		m.claiming = !m.in
		a.do("", Say{Line{Text: e.Text, Early: m.claiming}})
	case Reclaimed:
		m.reclaimed(e, now, a)
	case Stepped:
		m.answered("step", 1, e.Err, now)
		switch {
		case e.Err != nil:
		case e.World.Phase == "": // Tell leaves the world as it is, and the snapshot shows it in a moment
			m.again["step"] = now.Add(Rest)
		default:
			if e.World.Phase == rendezvous.Running {
				m.turning.ran = e.World.Generation
			}
			m.accept(&e.World)
		}
	case Readied:
		m.answered("ready", e.Generation, e.Err, now)
		m.hindered(e, a)
		if e.Err == nil {
			m.noted(nil, now, a)         // that comes before Ready
			if e.Generation >= m.ready { // an older one that was overtaken says nothing of this one
				m.ready, m.ports, m.resume = e.Generation, e.Ports, e.Resume
				if m.world != nil && m.world.Generation == e.Generation && e.Begun.After(m.asOf) {
					m.asOf = e.Begun // no newer world was there when it was applied: a start in the next second needs no other read
				}
			}
			m.floor = max(m.floor, e.Generation-1) // never again one that it reported beyond
		}
	case Started:
		m.answered("start", e.Generation, nil, now)
		m.started(e, now)
	case Exited:
		m.exit(e, now)
	case Halted:
		if c := m.crew; c != nil && c.world.Generation == e.Generation {
			c.dead, m.since = true, now
			m.idleAt, m.stopMS = now, 0
			if !c.haltedAt.IsZero() {
				m.stopMS, m.since = now.Sub(c.haltedAt).Milliseconds(), c.haltedAt
			}
		}
	case Closed:
		m.answered("close", e.Generation, e.Err, now)
		if c := m.crew; c != nil && c.world.Generation <= e.Generation && e.Err == nil {
			c.closed = true
		}
	case Reported:
		m.answered(e.Slot, e.Generation, e.Err, now)
		if e.Slot == "exit" && (e.Err == nil || rendezvous.Moved(e.Err)) {
			m.exitGen, m.exitRev = e.Generation, e.Rev
			if e.Err == nil {
				m.exited = &e.Exit
			}
		}
	case Probed:
		m.answered("probe/"+string(e.About.Incarnation), 1, nil, now)
		m.evidence.Answers[e.About.Incarnation] = membership.Answered{Answer: e.Answer, At: now}
		holds := map[string]time.Time{}
		for _, by := range e.Holds {
			holds[by] = now
		}
		m.evidence.Holds[e.About.Node] = holds
	case Signaled:
		m.signaled(e.Signal, now)
	case Wrote:
		m.answered(e.Slot, 1, e.Err, now)
		if inc, ok := strings.CutPrefix(e.Slot, "suspect/"); ok && e.Err != nil {
			delete(m.written, membership.Incarnation(inc))
		}
		m.wrote = max(m.wrote, e.Rev)
		m.again[e.Slot] = now.Add(Rest) // the snapshot shows it in a moment: not once more until then
	case Left:
		if !m.is(e.As) {
			return
		}
		m.answered("leave", pace(e.Quick), e.Err, now)
		if e.Err == nil || rendezvous.Moved(e.Err) || e.Quick {
			m.drop(a)
		}
	case Asked:
		if m.leave == nil || e.Now {
			l := e.Leaving
			l.asked = now
			m.leave = &l
		}
	case Ticked:
	}
}

func (m *Machine) saw(e Saw, now time.Time, a *actions) {
	if e.Asked {
		m.answered("read", 1, e.Err, now)
	}
	if e.Err != nil {
		m.alone = m.alone || e.Asked && m.told > 0
		if errors.Is(e.Err, schema.ErrNewerFormat) {
			m.over = &Result{Status: 1, Err: e.Err} // who cannot read it writes nothing
		} else {
			m.unreachable(now)
		}
		return
	}
	if m.stale && !e.Asked {
		return // buffered while this process stood still
	}
	s := e.Snapshot
	if m.job == nil {
		return
	}
	m.foreign = s.Whole && (s.Job == nil || s.Job.UID != m.job.UID) ||
		s.World != nil && s.World.UID != m.job.UID || s.World == nil && m.world != nil
	if m.foreign {
		m.alone = m.alone || e.Asked && m.told > 0
		m.unreachable(now) // it answers, but not for this job
		m.stale = m.stale && !e.Asked
		m.again["read"] = now.Add(time.Second)
		return
	}
	m.reached(now)
	m.stale = false
	if s.World != nil {
		m.accept(s.World)
	}
	if e.Begun.After(m.asOf) {
		m.asOf = e.Begun
	}
	if s.Rev < m.snap.Rev && s.Cluster == m.snap.Cluster {
		return
	}
	if s.Rev > m.snap.Rev {
		delete(m.again, "step")
	}
	if s.Whole {
		m.nodes = len(s.Nodes)
		m.note(s.Doing, now)
	}
	if m.following != nil && *m.following == rendezvous.Own {
		s.Whole = false // it was under way when it was the last: nothing that comes makes it newer
	}
	if s.Whole || !m.snap.Whole {
		m.snap = s
	}
	if !m.in {
		return // kept for when it has entered again
	}
	if s.Whole && s.Job.Attempt > m.me.Attempt {
		m.drop(a) // its attempt ended without it
		return
	}
	if s.Rev >= m.me.Rev {
		switch n := s.Node(m.me.Node); {
		case n == nil && m.lapsed.IsZero():
			m.lapsed = now
		case n != nil && n.Incarnation != m.me.Incarnation:
			m.drop(a)
		}
	}
}

// accept takes w if it is newer than what is known: worlds never go back.
func (m *Machine) accept(w *rendezvous.World) {
	if m.job != nil && w.UID != m.job.UID {
		return // the answer to a request of before the job was made again
	}
	if m.world != nil && (w.Generation < m.world.Generation || w.Generation == m.world.Generation && w.Rev <= m.world.Rev) {
		return
	}
	if m.world == nil || w.Generation > m.world.Generation {
		// What was seen of a node before this world says nothing of it as a member: who proposed it may
		// have had its answer since. Else two agents of two minds would undo each other's worlds.
		m.evidence.Answers = map[membership.Incarnation]membership.Answered{}
		m.evidence.Holds = map[string]map[string]time.Time{}
		m.probed = map[membership.Incarnation]time.Time{}
	}
	m.world = w
	if w.Rank(m.me.Ref) >= 0 || w.Leaver(m.me.Ref) {
		m.belonged = true
	}
}

// is reports whether this node is registered as inc now.
func (m *Machine) is(inc membership.Incarnation) bool { return m.in && m.me.Incarnation == inc }

func (m *Machine) entered(e Entered, now time.Time, a *actions) {
	m.answered("enter", 1, nil, now)
	m.lines.entered = append(m.lines.entered, e.Lines...)
	if e.Over != nil {
		m.over = e.Over
		return
	}
	m.claiming = false
	job := e.Job
	if m.job != nil && m.job.UID != job.UID {
		m.anew(job)
	}
	m.in, m.me, m.job, m.ttl = true, e.Node, &job, e.TTL
	m.logs = e.Logs
	a.do("", Renew{e.Node.Lease, e.TTL})
	m.limits.TTL = e.TTL
	m.lapsed, m.stale, m.belonged = time.Time{}, false, false
	m.told, m.alone, m.astray = 0, false, false
	m.exited, m.exitGen, m.exitRev = nil, 0, 0
	m.forgetEvidence()
	m.wrote = 0
	m.evidence.OnTime = now
	m.reached(now)
}

func (m *Machine) renewed(e Renewed, now time.Time) {
	if !m.in || e.Lease != m.me.Lease {
		return
	}
	switch {
	case e.Err == nil:
		m.reached(now)
		if m.evidence.OnTime.IsZero() {
			m.evidence.OnTime = e.Sent
		}
	case errors.Is(e.Err, store.ErrLeaseLost):
		m.evidence.OnTime = time.Time{}
		if m.lapsed.IsZero() {
			m.lapsed = now
		}
	default:
		m.evidence.OnTime = time.Time{}
		m.unreachable(now)
	}
}

// grudge is how long the store must be away before silence and absent keys are void for a window.
const grudge = time.Second

func (m *Machine) unreachable(now time.Time) {
	if m.away.IsZero() {
		m.away = now
	}
}

func (m *Machine) reached(now time.Time) {
	if m.foreign {
		return
	}
	m.astray = m.astray || !m.away.IsZero()
	if !m.away.IsZero() && now.Sub(m.away) > grudge {
		m.evidence.Void = now.Add(m.limits.Window)
	}
	m.away = time.Time{}
}

// drop forgets this incarnation. Its workers are ended by serve, and then it enters as a new one.
func (m *Machine) drop(a *actions) {
	if !m.in {
		return
	}
	a.do("", Forget{m.me.Lease})
	for _, slot := range []string{"register", "leave"} { // what was asked for it, its answer is not heard any more
		delete(m.busy, slot)
		delete(m.again, slot)
	}
	m.in, m.lapsed, m.belonged = false, time.Time{}, false
}

func (m *Machine) started(e Started, now time.Time) {
	c := m.crew
	if c == nil || c.world.Generation != e.Generation {
		return
	}
	if e.Err != nil {
		c.dead = true
		for i := range c.codes {
			code := e.Code
			c.codes[i] = &code
		}
		c.failed = &WorkerExit{Code: e.Code, Message: e.Err.Error()}
		return
	}
	c.started, c.began = true, now
}

func (m *Machine) exit(e Exited, now time.Time) {
	c := m.crew
	if c == nil || c.world.Generation != e.Generation || e.LocalRank >= len(c.codes) {
		return
	}
	if e.Ours {
		return // it was asked or signalled: no code of its own, and never a failure
	}
	code := e.Code
	c.codes[e.LocalRank] = &code
	if code != 0 && c.failed == nil && c.halt == NoHalt {
		x := e.WorkerExit
		c.failed = &x
	}
	if !slices.ContainsFunc(c.codes, func(code *int) bool { return code == nil || *code != 0 }) {
		c.through = now
	}
}

func (m *Machine) signaled(s Signal, now time.Time) {
	if s.Generation > max(m.told, m.generation()) && m.in {
		m.told, m.toldAt = s.Generation, now
	}
	if s.About.Node == "" {
		return
	}
	m.evidence.Answers[s.About.Incarnation] = membership.Answered{Answer: s.Answer, At: now}
	if s.Sign == "" {
		delete(m.mine, s.About.Incarnation)
		return
	}
	m.mine[s.About.Incarnation] = s
}
