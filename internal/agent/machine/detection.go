package machine

// This file is the part of an agent that watches other nodes. It keeps what the agent observed,
// which nodes it suspects, which suspicions are in the store, and the verdict on each node.

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// Sight are the inputs of decisions about other nodes, apart from the observations.
type Sight struct {
	Now        time.Time
	Self       membership.Node
	Joined     bool // this node is registered, or a member that lost only its registration
	Registered bool // joined, and the registration is not known to be gone
	Snapshot   *rendezvous.Snapshot
	World      *rendezvous.World // the newest; nil: none
}

// Detection is an agent's observations of other nodes, and its verdicts on them.
type Detection struct {
	View verdict.View

	limits   verdict.Timeouts
	evidence verdict.Evidence
	crowded  bool                   // at the last verdict, too many were in doubt at once
	doubts   map[verdict.Doubt]bool // at that time

	suspected map[membership.Incarnation]membership.Signal // the nodes that this agent suspects now
	written   map[membership.Incarnation]bool              // its suspicions in the store, or on their way there
	// revision of the newest suspicion that may still be in the store; 0: none
	newestRecord int64
	probed       map[membership.Incarnation]probe
	watched      []membership.Ref
	watchedIn    *rendezvous.World // the World of which watched was derived; nil: derive it again
}

// newDetection returns a Detection without observations.
func newDetection(limits verdict.Timeouts) *Detection {
	d := &Detection{limits: limits}
	d.forget()
	return d
}

// forget drops the observations of other nodes. The watcher signals again what still holds.
func (d *Detection) forget() {
	d.evidence = verdict.Evidence{Answers: map[membership.Incarnation]verdict.Answered{},
		Holds: map[string]map[string]time.Time{}, Absent: map[membership.Incarnation]time.Time{},
		Unanswered: map[membership.Incarnation]verdict.Unanswered{}, Void: d.evidence.Void}
	d.suspected, d.written = map[membership.Incarnation]membership.Signal{}, map[membership.Incarnation]bool{}
	d.probed = map[membership.Incarnation]probe{}
	d.watched, d.watchedIn = nil, nil
}

// Joined starts with a new incarnation of this node, whose lease has that ttl.
func (d *Detection) Joined(ttl time.Duration, now time.Time) {
	d.limits.TTL = ttl
	d.forget()
	d.newestRecord = 0
	d.evidence.OnTime = now
}

// Reregistered records that the registration is on a new lease. The suspicions of this agent
// expired with the old one.
func (d *Detection) Reregistered(now time.Time) {
	d.evidence.OnTime = now
	clear(d.written)
	d.newestRecord = 0
}

// Stalled records that this process stood still: earlier observations do not count any more.
func (d *Detection) Stalled() {
	d.LeaseUncertain()
	d.forget()
}

// Renewed records that the store renewed the lease, by a request that was sent at that time.
func (d *Detection) Renewed(sent time.Time) {
	if d.evidence.OnTime.IsZero() {
		d.evidence.OnTime = sent
	}
}

// LeaseUncertain records that a renewal failed or may have failed.
func (d *Detection) LeaseUncertain() { d.evidence.OnTime = time.Time{} }

// StoreWasAway makes silence and absent keys not count for a window.
func (d *Detection) StoreWasAway(now time.Time) { d.evidence.Void = now.Add(d.limits.Window) }

// NewWorld drops the evidence from before the newest World. It does not count against the members,
// because the proposer may have had their answers since. Otherwise two agents that disagree would
// undo each other's Worlds without end.
func (d *Detection) NewWorld() {
	d.evidence.Answers = map[membership.Incarnation]verdict.Answered{}
	d.evidence.Holds = map[string]map[string]time.Time{}
	d.evidence.Unanswered = map[membership.Incarnation]verdict.Unanswered{}
	d.probed = map[membership.Incarnation]probe{}
}

// Apply updates the observations with an event.
func (d *Detection) Apply(e message.Event, now time.Time, out *message.Outbox) {
	switch e := e.(type) {
	case message.Signaled:
		d.evidence.Answers[e.Incarnation] = verdict.Answered{Answer: e.Answer, At: now}
		if e.Cleared() {
			delete(d.suspected, e.Incarnation)
		} else {
			d.suspected[e.Incarnation] = e.Signal
		}
	case message.Probed:
		out.AnsweredAbout(message.KindProbe, e.About.Incarnation, nil)
		d.evidence.Answers[e.About.Incarnation] = verdict.Answered{Answer: e.Answer, At: now}
		delete(d.evidence.Holds, e.About.Node)
		d.noteHolds(e.About.Node, now, e.Holds...)
	case message.WatchersAsked:
		out.AnsweredAbout(message.KindProbe, e.About.Incarnation, nil)
		d.noteHolds(e.About.Node, now, e.Holds...)
	case message.Awaited:
		out.AnsweredAbout(message.KindAwaitAnswer, e.About.Incarnation, e.Err)
		if e.Err == nil {
			d.evidence.Answers[e.About.Incarnation] = verdict.Answered{Answer: e.Answer, At: now}
			d.evidence.Unanswered[e.About.Incarnation] = verdict.Unanswered{Rev: e.Rev, At: now}
		}
	case message.Suspected:
		out.Answered(message.KindSuspect, e.Err)
		if e.Err != nil {
			for _, inc := range e.About {
				delete(d.written, inc)
			}
		}
		d.newestRecord = max(d.newestRecord, e.Rev)
	case message.SuspicionAnswered:
		out.Answered(message.KindAnswerSuspicion, e.Err)
		out.Rest(message.KindAnswerSuspicion, message.Rest) // the snapshot shows it in a moment
	case message.Withdrawn:
		out.Answered(message.KindWithdraw, e.Err)
		out.Rest(message.KindWithdraw, message.Rest) // the snapshot shows it in a moment
	}
}

// noteHolds records which watchers still suspect a node.
func (d *Detection) noteHolds(node string, now time.Time, watchers ...string) {
	if d.evidence.Holds[node] == nil {
		d.evidence.Holds[node] = map[string]time.Time{}
	}
	for _, by := range watchers {
		d.evidence.Holds[node][by] = now
	}
}

// Suspects returns the nodes that this agent suspects now, by name.
func (d *Detection) Suspects() (refs []membership.Ref) {
	for _, inc := range slices.Sorted(maps.Keys(d.suspected)) {
		refs = append(refs, d.suspected[inc].Ref)
	}
	slices.SortStableFunc(refs, func(a, b membership.Ref) int { return strings.Compare(a.Node, b.Node) })
	return refs
}

// Sign returns the first sign of a change that this agent saw and the store may not show yet; "":
// none.
func (d *Detection) Sign() (sign membership.Sign) {
	for _, s := range d.suspected {
		if sign == "" || s.Sign < sign {
			sign = s.Sign
		}
	}
	return sign
}
