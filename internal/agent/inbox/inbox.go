// Package inbox is what the loop of an agent waits for.
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

// Sources are where events come from.
type Sources struct {
	Done    <-chan struct{}            // of the context of the agent
	Signals <-chan os.Signal           // of the user
	Behind  func() <-chan struct{}     // the store is behind the disk
	Peers   func() <-chan event.Signal // what the watch over other nodes saw
	Updates <-chan follow.Update       // of the store
	Events  <-chan event.Event         // all others
	Wake    <-chan time.Time           // when the machine asked for it
	Phase   time.Duration              // by which ticks come later than those of other agents
	Say     func(action.Line)          // to the user
}

// Inbox gathers events. Events that are ready at the same moment are taken in a fixed order, so
// that the same happenings lead to the same decisions. One goroutine owns it.
type Inbox struct {
	from  Sources
	tick  *time.Timer
	heard map[os.Signal]int // how often each came
	batch []event.Event
}

// New is an inbox whose ticks begin now. Close ends them.
func New(from Sources) *Inbox {
	return &Inbox{from: from, heard: map[os.Signal]int{},
		tick: time.NewTimer(membership.UntilTick(time.Now().Add(-from.Phase), machine.Tick))}
}

// Close ends the ticks.
func (i *Inbox) Close() { i.tick.Stop() }

// Wait returns when there is an event to Take.
func (i *Inbox) Wait() {
	i.batch = i.batch[:0]
	select {
	case <-i.from.Done:
		i.ended()
	case s := <-i.from.Signals:
		i.signal(s)
	case <-i.from.Behind():
		i.add(event.StoreBehind{})
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

// Take returns the batch, with what became ready beside its first event.
func (i *Inbox) Take() []event.Event {
	for len(i.batch) < mostAtOnce && i.poll() {
	}
	slices.SortStableFunc(i.batch, func(a, b event.Event) int { return order(a) - order(b) })
	return together(i.batch)
}

// together makes one event of reports about other nodes that follow each other.
func together(batch []event.Event) (all []event.Event) {
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

// poll adds an event that is ready, if there is one. Its cases are those of Wait: a select either
// waits or has a default.
func (i *Inbox) poll() bool {
	select {
	case <-i.from.Done:
		i.ended()
	case s := <-i.from.Signals:
		i.signal(s)
	case <-i.from.Behind():
		i.add(event.StoreBehind{})
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

// order is the place of an event in its batch. Events of one place come by one channel and keep
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

// ended: the context of this agent ended.
func (i *Inbox) ended() {
	i.from.Done = nil
	i.add(event.Asked{Leaving: event.Leaving{Reason: membership.Terminated, Status: 143, Now: true}})
}

func (i *Inbox) signal(s os.Signal) {
	if s == syscall.SIGQUIT {
		i.from.Say(action.Line{Text: stacks(), Raw: true})
	}
	i.add(event.Asked{Leaving: leaving(s, i.heard[s])})
	i.heard[s]++
}

// stacks are those of all goroutines: SIGQUIT asks what this process does.
func stacks() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}

// leaving is what a signal asks for that came before times already (docs/REFERENCE.md, "Stopping
// and signals").
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
