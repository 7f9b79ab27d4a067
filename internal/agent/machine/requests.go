package machine

import (
	"maps"
	"time"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// slot is a place in which one request at a time is under way.
type slot struct {
	kind  slotKind
	about membership.Incarnation // of a probe, a suspicion and its withdrawal
}

type slotKind int

const (
	slotEnter slotKind = iota
	slotRead
	slotRegister
	slotLocate
	slotStep
	slotReady
	slotStart
	slotClose
	slotExit
	slotFailure
	slotLeave
	slotRemember
	slotReclaim
	slotProbe
	slotSuspect
	slotWithdraw
)

// requests is what is under way, and what rests.
type requests struct {
	busy  map[slot]schema.Generation // for which generation, or at which pace; 1 where that is no matter
	rests map[slot]time.Time         // not sent again before
}

func newRequests() requests {
	return requests{busy: map[slot]schema.Generation{}, rests: map[slot]time.Time{}}
}

// expire forgets what has rested long enough.
func (r *requests) expire(now time.Time) {
	maps.DeleteFunc(r.rests, func(_ slot, at time.Time) bool { return !now.Before(at) })
}

func (r *requests) underWay(k slotKind) bool { return r.busy[slot{kind: k}] != 0 }

// forget frees the slots of requests whose answers are not heard any more.
func (r *requests) forget(kinds ...slotKind) {
	for _, k := range kinds {
		delete(r.busy, slot{kind: k})
		delete(r.rests, slot{kind: k})
	}
}

// Rest is how long a request that was refused, or whose guards moved on, is not sent again. News of
// what moved is on its way, and ends the rest of a step.
const Rest = 200 * time.Millisecond

// actions collects what Decide returns.
type actions struct {
	list []action.Action
	wake time.Time
}

func (m *Machine) do(a action.Action) { m.out.list = append(m.out.list, a) }

// wake asks for an event at that time.
func (m *Machine) wake(at time.Time) {
	if at.IsZero() || !m.out.wake.IsZero() && !at.Before(m.out.wake) {
		return
	}
	m.out.wake = at
	m.do(action.Wake{At: at})
}

// request gives an action that comes back as an event, unless one of its slot is under way.
func (m *Machine) request(k slotKind, a action.Action) bool { return m.send(slot{kind: k}, 1, a) }

// requestAbout is request for one node.
func (m *Machine) requestAbout(k slotKind, inc membership.Incarnation, a action.Action) bool {
	return m.send(slot{kind: k, about: inc}, 1, a)
}

// requestFor is request for a generation: a newer one replaces an older one that is under way.
func (m *Machine) requestFor(k slotKind, g schema.Generation, a action.Action) bool {
	return m.send(slot{kind: k}, g, a)
}

func (m *Machine) send(s slot, g schema.Generation, a action.Action) bool {
	if m.requests.busy[s] >= g {
		return false
	}
	if at, ok := m.requests.rests[s]; ok && m.now.Before(at) {
		m.wake(at)
		return false
	}
	m.requests.busy[s] = g
	m.do(a)
	return true
}

// answered frees the slot of a request; after an error it rests.
func (m *Machine) answered(k slotKind, err error) { m.answeredFor(k, 1, err) }

// answeredFor is answered for a generation: the answer to a request that was replaced frees
// nothing.
func (m *Machine) answeredFor(k slotKind, g schema.Generation, err error) {
	m.free(slot{kind: k}, g, err)
}

// answeredAbout is answered for one node.
func (m *Machine) answeredAbout(k slotKind, inc membership.Incarnation, err error) {
	m.free(slot{kind: k, about: inc}, 1, err)
}

func (m *Machine) free(s slot, g schema.Generation, err error) {
	if m.requests.busy[s] == g {
		delete(m.requests.busy, s)
	}
	delete(m.requests.rests, s)
	if err != nil {
		m.rest(s, Rest)
	}
}

// rest keeps a slot from being used for a while.
func (m *Machine) rest(s slot, d time.Duration) { m.requests.rests[s] = m.now.Add(d) }
