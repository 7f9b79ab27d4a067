package runtime

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
)

// inbox is what the loop waits for. What is ready in one moment is taken in a fixed order, so that
// the same happenings lead to the same decisions.
type inbox struct {
	l       *loop
	signals <-chan os.Signal
	done    <-chan struct{}
	heard   map[os.Signal]int // how often each came
	batch   []event.Event
}

// wait returns when the batch has an event.
func (i *inbox) wait() {
	i.batch = i.batch[:0]
	select {
	case <-i.done:
		i.ended()
	case s := <-i.signals:
		i.signal(s)
	case <-i.l.Saves.Behind():
		i.add(event.StoreBehind{})
	case s := <-i.l.Peers.Signals():
		i.add(event.Signaled{Signal: s})
	case s := <-i.l.saw:
		i.add(event.Saw{Update: s})
	case e := <-i.l.events:
		i.add(e)
	case <-i.l.tick.C:
		i.ticked()
	case <-i.l.wake.C:
		i.add(event.Ticked{})
	}
}

// take returns the batch, with what became ready beside its first event.
func (i *inbox) take() []event.Event {
	for len(i.batch) < mostAtOnce && i.poll() {
	}
	slices.SortStableFunc(i.batch, func(a, b event.Event) int { return order(a) - order(b) })
	return i.batch
}

// mostAtOnce bounds a batch.
const mostAtOnce = 64

// poll adds an event that is ready, if there is one. Its cases are those of wait: a select either
// waits or has a default.
func (i *inbox) poll() bool {
	select {
	case <-i.done:
		i.ended()
	case s := <-i.signals:
		i.signal(s)
	case <-i.l.Saves.Behind():
		i.add(event.StoreBehind{})
	case s := <-i.l.Peers.Signals():
		i.add(event.Signaled{Signal: s})
	case s := <-i.l.saw:
		i.add(event.Saw{Update: s})
	case e := <-i.l.events:
		i.add(e)
	case <-i.l.tick.C:
		i.ticked()
	case <-i.l.wake.C:
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
	case event.Saw:
		if !e.Asked {
			return 3
		}
	case event.Ticked:
		return 5
	}
	return 4
}

func (i *inbox) add(e event.Event) { i.batch = append(i.batch, e) }

func (i *inbox) ticked() {
	i.l.tick.Reset(membership.UntilTick(time.Now().Add(-i.l.phase), machine.Tick))
	i.add(event.Ticked{})
}

// ended: the context of this agent ended.
func (i *inbox) ended() {
	i.done = nil
	i.add(event.Asked{Leaving: event.Leaving{Reason: membership.Terminated, Status: 143, Now: true}})
}

func (i *inbox) signal(s os.Signal) {
	if s == syscall.SIGQUIT {
		i.l.Say(action.Line{Text: stacks(), Raw: true})
	}
	i.add(event.Asked{Leaving: leaving(s, i.heard[s])})
	i.heard[s]++
}

// stacks are those of all goroutines: SIGQUIT asks what this process does.
func stacks() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}

// leaving is what a signal asks for that came before times already (docs/REFERENCE.md, "Stopping and
// signals").
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
