package agent

import (
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/elasticd/elastic/internal/agent/machine"
	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
)

// Sources are the channels of the events.
type Sources struct {
	Done    <-chan struct{}                 // of the context of the agent
	Signals <-chan os.Signal                // of the user
	Behind  func() <-chan struct{}          // the store is behind the disk
	Gone    <-chan error                    // the checkpoints of this node are gone: it leaves
	Peers   func() <-chan membership.Signal // signals of the watcher
	Updates <-chan follow.Update            // of the store
	Events  <-chan message.Event            // all others
	Wake    <-chan time.Time                // when the machine asked for it
	Phase   time.Duration                   // delay of the ticks, so that agents tick at different times
	Say     func(message.Line)              // to the user
}

// Inbox collects events. Events that are ready at the same time are taken in a fixed order, so that
// the decisions do not depend on chance. One goroutine owns it.
type Inbox struct {
	from        Sources
	tick        *time.Timer
	signalCount map[os.Signal]int // number of each signal
	batch       []message.Event
}

// newInbox returns an inbox and starts its ticks. Close ends them.
func newInbox(from Sources) *Inbox {
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
		i.add(message.StoreBehind{})
	case err := <-i.from.Gone:
		i.unfit(err)
	case s := <-i.from.Peers():
		i.add(message.Signaled{Signal: s})
	case s := <-i.from.Updates:
		i.add(message.StoreRead{Update: s})
	case e := <-i.from.Events:
		i.add(e)
	case <-i.tick.C:
		i.ticked()
	case <-i.from.Wake:
		i.add(message.Ticked{})
	}
}

// Take returns the event that Wait got, and those that are ready by now.
func (i *Inbox) Take() []message.Event {
	for len(i.batch) < mostAtOnce && i.poll() {
	}
	slices.SortStableFunc(i.batch, func(a, b message.Event) int { return order(a) - order(b) })
	return joinReports(i.batch)
}

// joinReports joins consecutive reports about other nodes into one event.
func joinReports(batch []message.Event) (all []message.Event) {
	var reports []message.Event
	flush := func() {
		if len(reports) > 1 {
			all = append(all, message.Reports{All: reports})
		} else {
			all = append(all, reports...)
		}
		reports = nil
	}
	for _, e := range batch {
		switch e.(type) {
		case message.Signaled, message.Probed, message.Suspected, message.Withdrawn:
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
		i.add(message.StoreBehind{})
	case err := <-i.from.Gone:
		i.unfit(err)
	case s := <-i.from.Peers():
		i.add(message.Signaled{Signal: s})
	case s := <-i.from.Updates:
		i.add(message.StoreRead{Update: s})
	case e := <-i.from.Events:
		i.add(e)
	case <-i.tick.C:
		i.ticked()
	case <-i.from.Wake:
		i.add(message.Ticked{})
	default:
		return false
	}
	return true
}

// order is the rank of an event in its batch. Events of one rank come from one channel, and keep
// their order.
func order(e message.Event) int {
	switch e := e.(type) {
	case message.Asked:
		return 0
	case message.StoreBehind:
		return 1
	case message.Signaled:
		return 2
	case message.StoreRead:
		if !e.Asked {
			return 3
		}
	case message.Ticked:
		return 5
	}
	return 4
}

func (i *Inbox) add(e message.Event) { i.batch = append(i.batch, e) }

func (i *Inbox) ticked() {
	i.tick.Reset(membership.UntilTick(time.Now().Add(-i.from.Phase), machine.Tick))
	i.add(message.Ticked{})
}

// ended handles the end of the agent's context.
func (i *Inbox) ended() {
	i.from.Done = nil
	i.add(message.Asked{Leaving: message.Leaving{Reason: membership.Terminated, Status: 143, Now: true}})
}

// unfit handles the loss of the checkpoints of this node.
func (i *Inbox) unfit(err error) {
	i.add(message.Asked{Leaving: message.Leaving{Reason: membership.Unfit, Status: 125, Err: err}})
}

func (i *Inbox) signal(s os.Signal) {
	if s == syscall.SIGQUIT {
		i.from.Say(message.Line{Text: stacks(), Raw: true})
	}
	i.add(message.Asked{Leaving: leaving(s, i.signalCount[s])})
	i.signalCount[s]++
}

// stacks returns the stacks of all goroutines, for SIGQUIT.
func stacks() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}

// leaving returns what a signal asks for, if the same signal came before times already
// (docs/REFERENCE.md, "Stopping and signals").
func leaving(s os.Signal, before int) message.Leaving {
	switch s {
	case syscall.SIGINT:
		return message.Leaving{Reason: membership.Interrupted, Status: 130, Now: before > 0}
	case syscall.SIGQUIT:
		return message.Leaving{Reason: membership.Interrupted, Status: 131, Now: true}
	}
	if before > 0 {
		return message.Leaving{Reason: membership.Terminated, Status: 143, Now: true}
	}
	return message.Leaving{Reason: membership.Terminated, Status: 75}
}
