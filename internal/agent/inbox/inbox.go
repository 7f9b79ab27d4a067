// Package inbox collects the events of an agent.
package inbox

import (
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/internal/agent/machine"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
)

// Sources are the channels of the events.
type Sources struct {
	Done    <-chan struct{}            // of the context of the agent
	Signals <-chan os.Signal           // of the user
	Behind  func() <-chan struct{}     // the store is behind the disk
	Gone    <-chan error               // the checkpoints of this node are gone: it leaves
	Peers   func() <-chan event.Signal // signals of the watcher
	Updates <-chan follow.Update       // of the store
	Events  <-chan event.Event         // all others
	Wake    <-chan time.Time           // when the machine asked for it
	Phase   time.Duration              // delay of the ticks, so that agents tick at different times
	Say     func(action.Line)          // to the user
}

// Inbox collects events. Events that are ready at the same time are taken in a fixed order, so that
// the decisions do not depend on chance. One goroutine owns it.
type Inbox struct {
	from        Sources
	tick        *time.Timer
	signalCount map[os.Signal]int // number of each signal
	batch       []event.Event
}

// New returns an inbox and starts its ticks. Close ends them.
func New(from Sources) *Inbox {
	return &Inbox{from: from, signalCount: map[os.Signal]int{},
		tick: time.NewTimer(membership.UntilTick(time.Now().Add(-from.Phase), machine.Tick))}
}

// Close ends the ticks.
func (i *Inbox) Close() { i.tick.Stop() }

// Wait waits until there is an event to Take.
func (i *Inbox) Wait() {
	i.batch = i.batch[:0]
	select {
	case <-i.from.Done:
		i.ended()
	case s := <-i.from.Signals:
		i.signal(s)
	case <-i.from.Behind():
		i.add(event.StoreBehind{})
	case err := <-i.from.Gone:
		i.unfit(err)
	case s := <-i.from.Peers():
		i.add(event.Signaled{Signal: s})
	case s := <-i.from.Updates:
		i.add(event.StoreRead{Update: s})
	case e := <-i.from.Events:
		i.add(e)
	case <-i.tick.C:
		i.ticked()
	case <-i.from.Wake:
		i.add(event.Ticked{})
	}
}

// Take returns the event that Wait got, and those that are ready by now.
func (i *Inbox) Take() []event.Event {
	for len(i.batch) < mostAtOnce && i.poll() {
	}
	slices.SortStableFunc(i.batch, func(a, b event.Event) int { return order(a) - order(b) })
	return joinReports(i.batch)
}

// joinReports joins consecutive reports about other nodes into one event.
func joinReports(batch []event.Event) (all []event.Event) {
	var reports []event.Event
	flush := func() {
		if len(reports) > 1 {
			all = append(all, event.Reports{All: reports})
		} else {
			all = append(all, reports...)
		}
		reports = nil
	}
	for _, e := range batch {
		switch e.(type) {
		case event.Signaled, event.Probed, event.Suspected, event.Withdrawn:
			reports = append(reports, e)
		default:
			flush()
			all = append(all, e)
		}
	}
	flush()
	return all
}

// mostAtOnce bounds a batch.
const mostAtOnce = 64

// poll adds an event if one is ready. It has the same cases as Wait, because a select either waits
// or has a default.
func (i *Inbox) poll() bool {
	select {
	case <-i.from.Done:
		i.ended()
	case s := <-i.from.Signals:
		i.signal(s)
	case <-i.from.Behind():
		i.add(event.StoreBehind{})
	case err := <-i.from.Gone:
		i.unfit(err)
	case s := <-i.from.Peers():
		i.add(event.Signaled{Signal: s})
	case s := <-i.from.Updates:
		i.add(event.StoreRead{Update: s})
	case e := <-i.from.Events:
		i.add(e)
	case <-i.tick.C:
		i.ticked()
	case <-i.from.Wake:
		i.add(event.Ticked{})
	default:
		return false
	}
	return true
}

// order is the rank of an event in its batch. Events of one rank come from one channel, and keep
// their order.
func order(e event.Event) int {
	switch e := e.(type) {
	case event.Asked:
		return 0
	case event.StoreBehind:
		return 1
	case event.Signaled:
		return 2
	case event.StoreRead:
		if !e.Asked {
			return 3
		}
	case event.Ticked:
		return 5
	}
	return 4
}

func (i *Inbox) add(e event.Event) { i.batch = append(i.batch, e) }

func (i *Inbox) ticked() {
	i.tick.Reset(membership.UntilTick(time.Now().Add(-i.from.Phase), machine.Tick))
	i.add(event.Ticked{})
}

// ended handles the end of the agent's context.
func (i *Inbox) ended() {
	i.from.Done = nil
	i.add(event.Asked{Leaving: event.Leaving{Reason: membership.Terminated, Status: 143, Now: true}})
}

// unfit handles the loss of the checkpoints of this node.
func (i *Inbox) unfit(err error) {
	i.add(event.Asked{Leaving: event.Leaving{Reason: membership.Unfit, Status: 125, Err: err}})
}

func (i *Inbox) signal(s os.Signal) {
	if s == syscall.SIGQUIT {
		i.from.Say(action.Line{Text: stacks(), Raw: true})
	}
	i.add(event.Asked{Leaving: leaving(s, i.signalCount[s])})
	i.signalCount[s]++
}

// stacks returns the stacks of all goroutines, for SIGQUIT.
func stacks() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}

// leaving returns what a signal asks for, if the same signal came before times already
// (docs/REFERENCE.md, "Stopping and signals").
func leaving(s os.Signal, before int) event.Leaving {
	switch s {
	case syscall.SIGINT:
		return event.Leaving{Reason: membership.Interrupted, Status: 130, Now: before > 0}
	case syscall.SIGQUIT:
		return event.Leaving{Reason: membership.Interrupted, Status: 131, Now: true}
	}
	if before > 0 {
		return event.Leaving{Reason: membership.Terminated, Status: 143, Now: true}
	}
	return event.Leaving{Reason: membership.Terminated, Status: 75}
}
