package workers

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const grace = 30 * time.Second

// memberOf is a node of two, at a moment when their World of that generation runs.
func memberOf(g schema.Generation) *Facts {
	self := membership.Node{Ref: membership.Ref{Node: "a", Incarnation: "1"}}
	job := &rendezvous.Job{}
	job.Rules.Grace = rendezvous.Seconds(grace)
	return &Facts{Now: now, Self: self, Job: job, Joined: true, AsOf: now, Ran: g,
		World: &rendezvous.World{Generation: g, Phase: rendezvous.Running, Count: 2, Slots: 2,
			Members: []membership.Ref{self.Ref, {Node: "b", Incarnation: "1"}}}}
}

func newOutbox() *message.Outbox {
	out := message.NewOutbox()
	out.Begin(now)
	return out
}

// working are workers that run in the World of generation 3.
func working(canStay bool) *Workers {
	w := New(now)
	w.ready = 3
	w.Group = &Group{World: *memberOf(3).World, Started: true, codes: make([]*int, 2), canStay: canStay}
	return w
}

func held(planned bool, reason string) func(*Facts) {
	return func(f *Facts) {
		f.World.Phase, f.World.Hold = rendezvous.Waiting, &rendezvous.Hold{Planned: planned, Reason: reason}
	}
}

// newer is a next World, of the same members.
func newer(f *Facts) { f.World.Generation = 4 }

// What is done with workers that run follows from what the node knows; those that can stay do where the next
// World can use them.
func TestDrive(t *testing.T) {
	asked := func(reason string) message.Action {
		return message.HaltWorkers{Generation: 3, How: message.HaltAsked, Reason: reason, Grace: grace}
	}
	pause := message.PauseWorkers{Generation: 3}
	end := message.HaltWorkers{Generation: 3, How: message.HaltEnded, Grace: message.ShortGrace}
	kill := message.HaltWorkers{Generation: 3, How: message.HaltKilled}
	for _, c := range []struct {
		name       string
		know       func(*Facts)
		ends, stay message.Action // of workers that cannot stay, that can; nil: nothing
	}{
		{"nothing new", func(*Facts) {}, nil, nil},
		{"some are done", func(f *Facts) { f.World.Phase = rendezvous.Finishing }, nil, nil},
		{"an old reading", func(f *Facts) { f.World.Generation = 2 }, nil, nil},
		{"no reading", func(f *Facts) { f.World = nil }, nil, nil},
		{"a newer World", newer, end, pause},
		{"a newer World from an older checkpoint", func(f *Facts) { newer(f); f.World.Rollback = 5 }, end, end},
		{"a newer World without this node", func(f *Facts) { newer(f); f.Rank = -1 }, end, end},
		{"a peer knows a newer World", func(f *Facts) { f.Overtaken = 4 }, end, end},
		{"a member was lost", held(false, ""), end, pause},
		{"scaled", held(true, "scale"), asked("scale"), pause},
		{"a node joins", held(true, "join"), asked("join"), pause},
		{"the job stops", held(true, "stop"), asked("stop"), asked("stop")},
		{"another leaves", held(true, "leave"), asked("leave"), asked("leave")},
		{"the job failed", func(f *Facts) { f.World.Phase = rendezvous.Failed }, end, end},
		{"this node leaves", func(f *Facts) { f.Leaving = &message.Leaving{} }, nil, nil},
		{"this node leaves without a store", func(f *Facts) {
			f.Leaving, f.AwaySince = &message.Leaving{}, now.Add(-time.Second)
		}, asked("leave"), asked("leave")},
		{"this node leaves at once", func(f *Facts) { f.Leaving = &message.Leaving{Now: true} }, kill, kill},
		{"this node has left", func(f *Facts) { f.Over = true }, kill, kill},
		{"this life is over", func(f *Facts) { f.Joined = false }, end, end},
	} {
		for canStay, want := range map[bool]message.Action{false: c.ends, true: c.stay} {
			w, f, out := working(canStay), memberOf(3), newOutbox()
			c.know(f)
			w.Drive(f, out)
			var got message.Action
			for _, a := range out.Actions() {
				switch a.(type) {
				case message.HaltWorkers, message.PauseWorkers:
					got = a
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, can stay %v: %s", c.name, canStay, diff)
			}
			out.Begin(now)
			if w.Drive(f, out); len(out.Actions()) > 0 && want != nil && want != pause {
				t.Errorf("%s, can stay %v: it is done again: %+v", c.name, canStay, out.Actions())
			}
		}
	}
}

// An order is followed by a stronger one and never by a weaker one.
func TestOrdersGrow(t *testing.T) {
	w, f, out := working(false), memberOf(3), newOutbox()
	for _, step := range []struct {
		know func(*Facts)
		want message.Halt
	}{
		{held(true, "stop"), message.HaltAsked},
		{func(f *Facts) { f.World.Phase = rendezvous.Running }, message.HaltAsked},
		{newer, message.HaltEnded},
		{func(f *Facts) { f.World.Generation = 3 }, message.HaltEnded},
		{func(f *Facts) { f.Over = true }, message.HaltKilled},
		{func(f *Facts) { f.Over = false }, message.HaltKilled},
	} {
		step.know(f)
		if w.Drive(f, out); w.Group.Halt != step.want {
			t.Errorf("order %d, want %d", w.Group.Halt, step.want)
		}
	}
}

// Workers that do not leave their generation in time are ended.
func TestPauseHasALimit(t *testing.T) {
	w, f, out := working(true), memberOf(4), newOutbox()
	w.Drive(f, out)
	for _, s := range []struct {
		after time.Duration
		want  message.Halt
	}{{message.PauseLimit - 1, message.HaltPaused}, {message.PauseLimit, message.HaltEnded}} {
		f.Now = now.Add(s.after)
		if w.Drive(f, out); w.Group.Halt != s.want {
			t.Errorf("after %s the order is %d, want %d", s.after, w.Group.Halt, s.want)
		}
	}
}

// Workers start once, in a World that this node is a member of, is ready for, and has just read.
func TestStart(t *testing.T) {
	for _, c := range []struct {
		name string
		with func(*Workers, *Facts)
		want string
	}{
		{"ready", func(*Workers, *Facts) {}, "start"},
		{"another is done already", func(_ *Workers, f *Facts) { f.World.Phase = rendezvous.Finishing }, "start"},
		{"an old reading", func(_ *Workers, f *Facts) { f.AsOf = now.Add(-maxReadAge - 1) }, "read"},
		{"not ready", func(w *Workers, _ *Facts) { w.ready = 2 }, ""},
		{"the barrier", func(_ *Workers, f *Facts) { f.World.Phase = rendezvous.Forming }, ""},
		{"the World waits", func(_ *Workers, f *Facts) { f.World.Phase = rendezvous.Waiting }, ""},
		{"a spare", func(_ *Workers, f *Facts) { f.Rank = -1 }, ""},
		{"this node leaves", func(_ *Workers, f *Facts) { f.Leaving = &message.Leaving{} }, ""},
		{"it was started before", func(w *Workers, _ *Facts) { w.floor = 3 }, ""},
		{"workers are left", func(w *Workers, _ *Facts) { w.Group = &Group{World: *memberOf(2).World} }, ""},
		{"workers wait", func(w *Workers, _ *Facts) {
			w.Group = &Group{World: *memberOf(2).World, Paused: true, closed: true, canStay: true}
		}, "continue"},
	} {
		w, f, out := New(now), memberOf(3), newOutbox()
		w.ready = 3
		c.with(w, f)
		w.Start(f, out)
		got := ""
		for _, a := range out.Actions() {
			switch a.(type) {
			case message.StartWorkers:
				got = "start"
			case message.ContinueWorkers:
				got = "continue"
			case message.Read:
				got = "read"
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A failure is reported once. SIGTERM of all workers waits for that of the agent, and a node that leaves
// reports none.
func TestFailuresAreReported(t *testing.T) {
	for _, c := range []struct {
		name  string
		code  int
		with  func(*Workers, *Facts)
		after time.Duration
		want  bool
	}{
		{"an error", 1, func(*Workers, *Facts) {}, 0, true},
		{"SIGTERM", 143, func(*Workers, *Facts) {}, 0, false},
		{"SIGTERM, and nothing follows", 143, func(*Workers, *Facts) {}, signalSkew, true},
		{"this node leaves", 1, func(_ *Workers, f *Facts) { f.Leaving = &message.Leaving{} }, 0, false},
		{"the World waits", 1, func(_ *Workers, f *Facts) { held(false, "")(f) }, 0, false},
		{"a newer World", 1, func(_ *Workers, f *Facts) { newer(f) }, 0, false},
		{"they were asked to end", 1, func(w *Workers, _ *Facts) { w.Group.Halt = message.HaltAsked }, 0, false},
		{"no member any more", 1, func(_ *Workers, f *Facts) { f.Rank = -1 }, 0, false},
		{"this process stood still", 1, func(_ *Workers, f *Facts) { f.Stale = true }, 0, false},
	} {
		w, f, out := working(false), memberOf(3), newOutbox()
		w.Apply(message.Exited{Generation: 3, WorkerExit: message.WorkerExit{LocalRank: 1, Code: c.code}}, f, out)
		f.Now = now.Add(c.after)
		c.with(w, f)
		for range 2 {
			w.ReportEnd(f, out)
			out.AnsweredFor(message.KindFailure, 3, nil)
		}
		var reports []message.ReportFailures
		for _, a := range out.Actions() {
			if r, ok := a.(message.ReportFailures); ok {
				reports = append(reports, r)
			}
		}
		if (len(reports) == 1) != c.want || len(reports) > 1 {
			t.Errorf("%s: reported %+v", c.name, reports)
			continue
		}
		if c.want {
			if x := reports[0].Failures[0]; x.Rank != 1 || x.Code != c.code || x.Node != "a" {
				t.Errorf("%s: %+v", c.name, x)
			}
		}
	}
}
