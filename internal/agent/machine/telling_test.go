package machine

import (
	"fmt"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
)

// state is the state of a, in the words of docs/PROTOCOL.md, section 5.
func (w *teller) state() string {
	m := w.m
	more := ""
	if m.workers.Group != nil && m.workers.Group.Started && !m.workers.Group.Dead {
		more = fmt.Sprintf(", workers of generation %d run", m.workers.Group.World.Generation)
		if m.workers.Group.Paused {
			more = fmt.Sprintf(", workers of generation %d wait", m.workers.Group.World.Generation)
		} else if m.workers.Group.First && m.workers.Group.Halt == message.HaltPaused {
			more = ", workers start"
		} else if m.workers.Group.Halt != message.NoHalt {
			more = fmt.Sprintf(", workers of generation %d are ending", m.workers.Group.World.Generation)
		}
	}
	if m.seen.stale {
		more += ", after a gap"
	}
	state := m.State().String()
	if m.leaver() && (m.State() == StatePreparing || m.State() == StateReady) {
		state += ", as a leaver"
	}
	return state + more
}

// does records an action, and keeps it if an event answers it.
func (w *teller) does(a message.Action) {
	do := func(slot, format string, args ...any) {
		if slot != "" {
			w.wait[slot] = a
		}
		fmt.Fprintf(&w.said, "do   "+format+"\n", args...)
	}
	switch a := a.(type) {
	case message.Enter:
		do("enter", "enter")
	case message.Forget:
		for slot, x := range w.wait { // requests of the old incarnation are not answered any more
			if _, ok := x.(message.StartWorkers); !ok {
				delete(w.wait, slot)
			}
		}
		do("", "forget the registration")
	case message.Follow:
		do("", "follow %s", map[follow.Scope]string{follow.ScopeAll: "everything",
			follow.ScopeOwn: "the world and its own key"}[a.Scope])
	case message.Read:
		w.read = w.now
		do("read", "read the world")
	case message.Locate:
		do("locate", "find out where it is")
	case message.Remember:
		do("remember", "remember generation %d", a.Memory.Generation)
	case message.Remake:
		do("remake", "bring the job back, of generation %d", a.Lost.Own.Generation)
	case message.Register:
		do("register", "register again, as %s", a.Node.Incarnation)
	case message.Take:
		do("step", "step: %s", step(a.Step))
	case message.GetReady:
		text := ""
		if !a.Member {
			text = ", as a leaver"
		} else if a.InMemory {
			text = ", with the state in memory"
		}
		if gone := w.now.Sub(a.Idle); !a.Idle.IsZero() && gone >= time.Second {
			text += fmt.Sprintf(", its workers gone for %s", gone)
		}
		do("ready", "get ready for generation %d%s", a.World.Generation, text)
	case message.PublishWarm:
		do("warm", "tell that the others need not wait for its workers")
	case message.StartWorkers:
		late := ""
		if a.Waits {
			late = ", which wait for their first world"
		}
		if a.Unprepared {
			late = ", the checkpoint is brought first"
		}
		do("start", "start the workers of generation %d, rank %d of %d%s", a.World.Generation, a.Rank,
			a.World.Count, late)
	case message.ContinueWorkers:
		do("start", "hand generation %d to the workers, rank %d of %d", a.World.Generation, a.Rank,
			a.World.Count)
	case message.PauseWorkers:
		do("", "have the workers leave generation %d", a.Generation)
	case message.HaltWorkers:
		switch a.How {
		case message.HaltAsked:
			do("", "ask the workers of generation %d to save (%s), %s", a.Generation, a.Reason, a.Grace)
		case message.HaltEnded:
			do("", "end the workers of generation %d", a.Generation)
		default:
			do("", "kill the workers of generation %d", a.Generation)
		}
	case message.CloseSaves:
		if a.Last {
			do("close", "close the captures of generation %d, with what is complete", a.Generation)
		} else {
			do("close", "close the captures of generation %d", a.Generation)
		}
	case message.ReportExit:
		do("exit", "report the exit of generation %d: %s", a.World.Generation, codes(a.Exit))
	case message.ReportFailures:
		do("failure", "report the failure of generation %d: exit code %d", a.World.Generation,
			a.Failures[0].Code)
	case message.PublishTiming:
		do("", "tell where the time of generation %d went: %s", a.World.Generation, a.Timing)
	case message.Probe:
		by := ""
		for _, r := range a.Watchers {
			by += ", ask " + r.Node
		}
		do("", "dial %s%s", life(a.About), by)
	case message.AskWatchers:
		by := ""
		for _, r := range a.Watchers {
			by += ", ask " + r.Node
		}
		do("", "about %s%s", life(a.About), by)
	case message.WatchNodes:
		var names []string
		for _, r := range a.Refs {
			names = append(names, life(r))
		}
		do("", "watch %s", orNoNode(names))
	case message.Suspect:
		var all []string
		for _, s := range a.Suspicions {
			all = append(all, fmt.Sprintf("%s (%s)", s.Node, s.Sign))
		}
		do("suspect", "suspect %s", strings.Join(all, ", "))
	case message.Withdraw:
		var all []string
		for _, s := range a.Suspicions {
			all = append(all, s.Node)
		}
		do("clear", "clear %s", strings.Join(all, ", "))
	case message.SayHello:
		text := fmt.Sprintf("answer as %s, generation %d", a.Incarnation, a.Generation)
		if a.Failed {
			text += ", its worker failed"
		}
		if a.Ended {
			text += ", its workers ended"
		}
		for _, s := range a.Suspects {
			text += ", suspects " + life(s)
		}
		do("", "%s", text)
	case message.Leave:
		at := ""
		if a.Quick {
			at = ", at once"
		}
		do("leave", "leave (%s)%s", a.Why, at)
	case message.Say:
		fmt.Fprintf(&w.said, "say  %s\n", a.Text)
	case message.Renew: // it does, for as long as it is registered
	case message.Wake: // the ticks of a story come soon enough
		if !a.At.After(w.now) {
			do("", "spin: a tick now, and again")
		}
	case message.Quit:
		w.gone = true
		do("", "quit with %d", a.Status)
	default:
		do("", "%T", a)
	}
}

func life(r membership.Ref) string {
	if strings.HasSuffix(string(r.Incarnation), "1") {
		return r.Node
	}
	return fmt.Sprintf("%s (%s)", r.Node, r.Incarnation)
}

func orNoNode(names []string) string {
	if len(names) == 0 {
		return "no node"
	}
	return strings.Join(names, " ")
}

func codes(x rendezvous.Exit) string {
	var s []string
	for _, c := range x.Codes {
		if c == nil {
			s = append(s, "none")
		} else {
			s = append(s, fmt.Sprint(*c))
		}
	}
	if x.Planned {
		s = append(s, "saved")
	}
	return strings.Join(s, ", ")
}

func step(s plan.Step) string {
	lives := func(word string, refs []membership.Ref) string {
		if len(refs) == 0 {
			return ""
		}
		for _, r := range refs {
			word += " " + life(r)
		}
		return word
	}
	lost := func(seen []verdict.Member) (refs []membership.Ref) {
		for _, x := range seen {
			refs = append(refs, x.Ref)
		}
		return refs
	}
	switch s := s.(type) {
	case plan.Propose:
		text := lives(fmt.Sprintf("propose generation %d (%s):", s.World.Generation, s.World.Cause),
			s.World.Members) +
			lives("; leaving", s.World.Leavers) + lives("; evicts", lost(s.Evicted)) +
			lives("; without", lost(s.Dropped))
		if s.World.Resume != nil {
			text += fmt.Sprintf("; from checkpoint %d", s.World.Resume.Number)
		}
		return text
	case plan.Hold:
		if s.Hold.Planned {
			return fmt.Sprintf("hold (%s), the workers save first (%s)", s.Hold.Why, s.Hold.Reason)
		}
		if s.Hold.Backoff > 0 {
			return fmt.Sprintf("hold (%s), for %s", s.Hold.Why, time.Duration(s.Hold.Backoff))
		}
		return fmt.Sprintf("hold (%s)", s.Hold.Why) + lives("; lost", lost(s.Lost))
	case plan.ReportLost:
		return lives("tell: lost", lost(s.Lost))
	case plan.Run:
		return "run, master on " + s.Master.Host
	case plan.Finish:
		return "finishing, " + s.Node + " is through"
	case plan.End:
		return fmt.Sprintf("%s, exit %d", s.Phase, s.Outcome.Code)
	}
	return fmt.Sprintf("%T", s)
}
