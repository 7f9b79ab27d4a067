package machine

import (
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// statusTimeout is the exit status of a node that would not wait any longer.
const statusTimeout = 124

// patience is how long a node that wants to go waits for a store that does not answer.
const patience = 2 * time.Second

// leaving takes this node out of the job. A member does not just go: a collective that one leaves
// breaks the others, so all of them save first (a planned Hold), and then it leaves in place of
// reporting its exit.
func (m *Machine) leaving(now time.Time, a *actions) {
	m.giveUp(now)
	if m.leave == nil {
		return
	}
	if !m.in {
		// Who is registered in a moment says that it leaves. Who is kept out, or meets no store, has nobody to say it to.
		coming := m.busy["enter"] != 0 && m.job != nil && !m.claiming && !m.leave.Now && now.Sub(m.leave.asked) < patience
		switch {
		case m.crew == nil && !coming:
			m.over = &Result{Status: m.leave.Status, Err: m.leave.Err}
			m.finish(now, a)
		case coming:
			a.wake(m.leave.asked.Add(patience))
		}
		return
	}
	_, member := m.member()
	if member && !m.stale && m.lapsed.IsZero() && !m.leave.Now {
		switch m.world.Phase {
		case rendezvous.Forming, rendezvous.Running, rendezvous.Finishing:
			if x := m.lastExit(); x != nil && x.Zero() {
				break // its part is done
			}
			m.request(a, now, "step", Take{Seen: m.partial(), Me: m.me, Step: m.goodbye()})
			if m.away.IsZero() || now.Sub(m.away) < patience {
				return
			}
		}
	}
	if !m.idle() {
		return
	}
	if !m.away.IsZero() && (m.leave.Now || now.Sub(m.away) > patience) {
		m.drop(a) // nobody to say it to: the lease will say it
		m.leaving(now, a)
		return
	}
	l := Leave{Me: m.me, Generation: m.generation(), Why: m.leave.Reason, Stop: m.lastOne(), Quick: m.leave.Now}
	if w := m.world; w != nil && m.leave.Reason == membership.Finished {
		l.Ended = w.Phase
	}
	m.requestFor(a, now, "leave", pace(m.leave.Now), l)
}

// pace orders the requests to leave: a quick one replaces one that takes its time.
func pace(quick bool) schema.Generation {
	if quick {
		return 2
	}
	return 1
}

// pressed reports whether this node goes and does not wait, for what it began at since: it was told so twice, or
// the store, without which nothing can be saved, is away for longer than it has patience.
func (m *Machine) pressed(since, now time.Time) bool {
	if m.leave == nil || m.leave.Now {
		return m.leave != nil
	}
	return !m.away.IsZero() && now.Sub(m.away) > patience && now.Sub(since) > patience
}

// goodbye is the planned Hold of a member that goes.
func (m *Machine) goodbye() rendezvous.Step {
	return rendezvous.Enter{Ledger: m.world.Ledger, Hold: rendezvous.Hold{Why: rendezvous.Saving, Planned: true, Reason: "leave",
		Cause: rendezvous.Drain, Text: m.me.Node + " leaves (" + string(m.leave.Reason) + ")", Present: max(0, m.world.Count-1)}}
}

// partial is the snapshot that a request of an ordinary member rests on. As long as its world neither waits nor has
// ended, the fence is at its generation.
func (m *Machine) partial() rendezvous.Snapshot {
	return rendezvous.Snapshot{Job: m.job, World: m.world, Fence: m.world.Generation, Wish: rendezvous.Wish{NP: m.world.NP}}
}

func (m *Machine) generation() (g schema.Generation) {
	if m.world != nil {
		g = m.world.Generation
	}
	return g
}

// lastOne is the snapshot on which a job is stopped whose name was made up, when its last node leaves on
// Ctrl-C: nobody could name it to come back to it.
func (m *Machine) lastOne() *rendezvous.Snapshot {
	if !m.job.Made || m.leave.Reason != membership.Interrupted || !m.snap.Whole || len(m.snap.Nodes) > 1 || !m.current() ||
		m.world != nil && m.world.Phase.Ended() {
		return nil
	}
	s := m.snap
	return &s
}

// giveUp makes this node leave when no world has run here for as long as the user would wait.
func (m *Machine) giveUp(now time.Time) {
	if m.cfg.WaitTimeout == 0 || m.leave != nil || m.over != nil {
		return
	}
	if m.crew != nil && !m.crew.dead {
		m.since = now
		return
	}
	if now.Sub(m.since) >= m.cfg.WaitTimeout {
		m.leave = &Leaving{Reason: membership.Terminated, Status: statusTimeout, asked: now}
	}
}

// ending: the attempt that this node belonged or stood by to is over.
func (m *Machine) ending(now time.Time, a *actions) {
	w := m.world
	if m.leave != nil || !m.in || w == nil || !w.Phase.Ended() || w.Attempt != m.me.Attempt {
		return
	}
	if !m.idle() {
		return
	}
	// A leaver of a world that ended is through as well.
	m.leave = &Leaving{Reason: membership.Finished, Status: w.Outcome.Code}
	m.leaving(now, a)
}

// enter joins the job, as a new incarnation, when nothing of an earlier one is left here.
func (m *Machine) enter(now time.Time, a *actions) {
	if _, member := m.member(); m.in && !member && m.belonged && m.idle() && m.leave == nil && !m.world.Phase.Ended() {
		m.depart(now, a)
		return
	}
	if m.stoppedAlone() {
		m.drop(a)
	}
	if m.in || m.crew != nil || m.leave != nil || m.over != nil {
		return
	}
	m.request(a, now, "enter", Enter{Again: m.job != nil})
}

// stoppedAlone reports whether its workers ended for a newer generation that a peer told of, and the store, now
// that it answers, has none. A new incarnation is what the others go on with.
func (m *Machine) stoppedAlone() bool {
	c, w := m.crew, m.world
	return m.in && c != nil && c.halt == HaltEnded && m.idle() && m.told == 0 && m.away.IsZero() && m.leave == nil &&
		w.Generation == c.world.Generation && (w.Phase == rendezvous.Running || w.Phase == rendezvous.Finishing)
}

// depart: the newest world is without this incarnation. A leaver first passes the barrier; then it
// says that it left and comes back as a new incarnation, a spare.
func (m *Machine) depart(now time.Time, a *actions) {
	if m.world.Leaver(m.me.Ref) {
		if m.ready < m.world.Generation {
			return
		}
		m.request(a, now, "leave", Leave{Me: m.me, Generation: m.world.Generation, Why: membership.ScaledIn})
		return
	}
	m.drop(a)
}

// finish ends the workers, if any are left, and then the agent.
func (m *Machine) finish(now time.Time, a *actions) {
	m.drop(a)
	if m.crew != nil {
		m.serve(now, a)
	}
	if !m.idle() || m.quit {
		m.tell(now, a)
		return
	}
	m.quit = true
	m.tell(now, a)
	a.do("", Quit{*m.over})
}
