package machine

import (
	"errors"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// remember notes a newer World than what is remembered, for a claim to come: a spare, too, must know whom
// to wait for. Who is in the World does it before it is ready.
func (m *Machine) remember(now time.Time, a *actions) {
	w := m.world
	if !m.in || w == nil || m.foreign || w.Generation <= m.remembered || w.Rank(m.me.Ref) >= 0 || w.Leaver(m.me.Ref) {
		return
	}
	c := rendezvous.Claimed(m.me.Node, *m.job, m.snap.Wish, w)
	c.Known = m.snap.Head
	m.request(a, now, "remember", Remember{c})
}

// noted is what became of writing down what a claim to come would say. A disk that does not take it is tried more and
// more rarely: each time it is asked to sync.
func (m *Machine) noted(err error, now time.Time, a *actions) {
	const first, most = time.Second, 30 * time.Second
	switch {
	case err != nil:
		if m.forgetful == 0 {
			m.say(a, "this node cannot note what it knows of the job (%v): it could not claim it if it died with the server", err)
		}
		m.forgetful = min(max(2*m.forgetful, first), most)
		m.again["remember"] = now.Add(m.forgetful)
	case m.forgetful > 0:
		m.forgetful = 0
		m.say(a, "this node has noted what it knows of the job")
	}
}

// reclaim is the same for an agent whose workers go on meanwhile.
func (m *Machine) reclaim(now time.Time, a *actions) {
	if !m.foreign || !m.in || m.leave != nil {
		return
	}
	c := rendezvous.Claimed(m.me.Node, *m.job, m.snap.Wish, m.world)
	c.Known, c.Generation = m.snap.Head, max(c.Generation, m.snap.Fence)
	m.request(a, now, "claim", Reclaim{c})
}

// reclaimed: the store holds a job of this name again.
func (m *Machine) reclaimed(e Reclaimed, now time.Time, a *actions) {
	m.answered("claim", 1, e.Err, now)
	m.again["claim"] = now.Add(time.Second)
	if errors.Is(e.Err, schema.ErrNewerFormat) {
		m.over = &Result{Status: 1, Err: e.Err} // as whoever meets it
	}
	if m.in && errors.Is(e.Err, store.ErrMoved) {
		m.drop(a) // it was removed: its workers end, and entering says so
		return
	}
	if e.Err != nil || m.job == nil || !e.Job.Follows(m.job.UID) || !m.in {
		return
	}
	// Its workers belong to a job that is no more: they end, and this node joins the one that succeeds it.
	m.drop(a)
	m.anew(e.Job)
}

// anew forgets what was known of a job under the uid that it had.
func (m *Machine) anew(job rendezvous.Job) {
	m.job, m.world, m.snap = &job, nil, rendezvous.Snapshot{}
	m.foreign, m.away = false, time.Time{}
	m.marks, m.step, m.nodes, m.following = rendezvous.Marks{}, "", 0, nil
	m.lines.waiting = 0 // a revision of the store that was lost
	delete(m.again, "read")
}
