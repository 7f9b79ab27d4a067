package message

// This file collects the actions of a machine. It lets one request of each kind be under way at a
// time. After an error the next request of that kind waits for a moment.

import (
	"maps"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// slot identifies requests of which one at a time is under way.
type slot struct {
	kind  Kind
	about membership.Incarnation // of a probe
}

// Kind is a kind of request.
type Kind int

const (
	KindEnter Kind = iota
	KindRead
	KindRegister
	KindLocate
	KindStep
	KindReady
	KindStart
	KindClose
	KindExit
	KindFailure
	KindLeave
	KindRemember
	KindRemake
	KindWarm
	KindProbe
	KindSuspect
	KindWithdraw
	KindAwaitAnswer
	KindAnswerSuspicion
)

// Outbox collects the actions that follow from one event. It also knows which requests are under
// way, and which must wait before they are sent again.
type Outbox struct {
	now   time.Time // time of the current event
	list  []Action
	next  time.Time                  // the earliest wake that was asked for
	busy  map[slot]schema.Generation // the generation or priority of the request; 1: it has none
	rests map[slot]time.Time         // do not send again before
}

// NewOutbox returns an outbox with nothing under way.
func NewOutbox() *Outbox {
	return &Outbox{busy: map[slot]schema.Generation{}, rests: map[slot]time.Time{}}
}

// Begin starts the list of actions of an event, and ends the rests that have passed.
func (o *Outbox) Begin(now time.Time) {
	o.now, o.list, o.next = now, nil, time.Time{}
	maps.DeleteFunc(o.rests, func(_ slot, at time.Time) bool { return !now.Before(at) })
}

// Actions returns the actions of the current event, in order.
func (o *Outbox) Actions() []Action { return o.list }

// UnderWay reports whether a request of kind k has no answer yet.
func (o *Outbox) UnderWay(k Kind) bool { return o.busy[slot{kind: k}] != 0 }

// Forget frees the slots of requests whose answers will be ignored.
func (o *Outbox) Forget(kinds ...Kind) {
	for _, k := range kinds {
		delete(o.busy, slot{kind: k})
		o.EndRest(k)
	}
}

// EndRest ends the pause before the next request of a kind.
func (o *Outbox) EndRest(k Kind) { delete(o.rests, slot{kind: k}) }

// Rest is the pause before a request is sent again that was refused, or whose guards did not hold.
// An update of the store ends the rest of a step earlier.
const Rest = 200 * time.Millisecond

// Do adds an action.
func (o *Outbox) Do(a Action) { o.list = append(o.list, a) }

// Wake asks for an event at that time.
func (o *Outbox) Wake(at time.Time) {
	if at.IsZero() || !o.next.IsZero() && !at.Before(o.next) {
		return
	}
	o.next = at
	o.Do(Wake{At: at})
}

// Request adds an action whose outcome comes back as an event, unless one of that kind is under
// way. It reports whether it did.
func (o *Outbox) Request(k Kind, a Action) bool { return o.send(slot{kind: k}, 1, a) }

// RequestAbout is Request for one node.
func (o *Outbox) RequestAbout(k Kind, inc membership.Incarnation, a Action) bool {
	return o.send(slot{kind: k, about: inc}, 1, a)
}

// RequestFor is Request for a generation. A newer generation replaces an older one that is under
// way.
func (o *Outbox) RequestFor(k Kind, g schema.Generation, a Action) bool {
	return o.send(slot{kind: k}, g, a)
}

// send adds an action, unless its slot has a request of that generation or a newer one, or rests.
func (o *Outbox) send(s slot, g schema.Generation, a Action) bool {
	if o.busy[s] >= g {
		return false
	}
	if at, ok := o.rests[s]; ok && o.now.Before(at) {
		o.Wake(at)
		return false
	}
	o.busy[s] = g
	o.Do(a)
	return true
}

// Answered frees the slot of a request. After an error the slot rests.
func (o *Outbox) Answered(k Kind, err error) { o.AnsweredFor(k, 1, err) }

// AnsweredFor is Answered for a generation. The answer to a request that was replaced does not free the
// slot of the newer one.
func (o *Outbox) AnsweredFor(k Kind, g schema.Generation, err error) {
	o.free(slot{kind: k}, g, err)
}

// AnsweredAbout is Answered for one node.
func (o *Outbox) AnsweredAbout(k Kind, inc membership.Incarnation, err error) {
	o.free(slot{kind: k, about: inc}, 1, err)
}

// free frees a slot, and ends its rest. After an error the slot rests.
func (o *Outbox) free(s slot, g schema.Generation, err error) {
	if o.busy[s] == g {
		delete(o.busy, s)
	}
	delete(o.rests, s)
	if err != nil {
		o.rest(s, Rest)
	}
}

// Rest makes the next request of a kind wait for d.
func (o *Outbox) Rest(k Kind, d time.Duration) { o.rest(slot{kind: k}, d) }

func (o *Outbox) rest(s slot, d time.Duration) { o.rests[s] = o.now.Add(d) }
