package machine

import (
	"reflect"
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/internal/agent/outbox"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// reportEnd tells how workers here ended. A failure is told under the world and not under the
// fence: once the world waits, a worker that ends is a victim of the stop.
func (m *Machine) reportEnd() {
	if _, member := m.member(); !member || m.seen.stale {
		return
	}
	w, g := m.seen.world, m.local.group
	if x := m.exitRecord(); x != nil && !(x.Planned && m.leave != nil) && !reflect.DeepEqual(x, m.lastExit()) {
		m.out.RequestFor(outbox.Exit, w.Generation, action.ReportExit{World: *w, Node: m.self.node.Node, Seen: m.exitRev(), Exit: *x})
	}
	if g == nil || g.halt != action.NoHalt || g.world.Generation != w.Generation ||
		w.Phase != rendezvous.Running && w.Phase != rendezvous.Finishing {
		return
	}
	failures := m.failuresToReport(g)
	if len(failures) == 0 || g.failRev == w.Rev && g.reported == len(failures) {
		return
	}
	if m.out.RequestFor(outbox.Failure, w.Generation, action.ReportFailures{World: *w, Failures: slices.Clone(failures)}) {
		g.failRev, g.reported = w.Rev, len(failures)
	}
}

// together is how much later than its worker a node may get the SIGTERM that a scheduler sends to
// both.
const together = time.Second

// failuresToReport are the failures of g that the others are to be told. A node that goes tells
// none: its planned Hold has all save, and a failure would begin a new generation that fences these
// saves off. Nor does it at once where a SIGTERM ended every worker: agents may be signalled as
// well.
func (m *Machine) failuresToReport(g *workerGroup) []rendezvous.Failure {
	if m.leave != nil || len(g.failures) == 0 {
		return nil
	}
	if slices.ContainsFunc(g.failures, func(f rendezvous.Failure) bool { return !asked(f.Code) }) {
		return g.failures
	}
	if at := g.failures[0].Time.Add(together); m.now.Before(at) {
		m.out.Wake(at)
		return nil
	}
	return g.failures
}

// asked reports whether a worker with this exit code ended because of a SIGTERM, its own or that of
// another rank.
func asked(code int) bool { return code == 143 || code == 101 || code == 102 }

// failure is the end of a worker here as the others are told it.
func (m *Machine) failure(w *rendezvous.World, x event.WorkerExit) rendezvous.Failure {
	rank := 0
	if x.Process.Name == "" {
		rank = max(0, w.WorkerRank(w.Rank(m.self.node.Ref), x.LocalRank))
	}
	return rendezvous.Failure{Node: m.self.node.Node, Incarnation: m.self.node.Incarnation, LocalRank: x.LocalRank,
		Process: x.Process,
		Rank:    rank, Code: x.Code, Signal: x.Signal,
		Message: x.Message, Detail: x.Detail, Victim: x.Victim, Hang: x.Hang, Step: x.Step, NaN: x.NaN, Time: m.now}
}

// exitRecord is what the record of this node should say, or nil if there is nothing to say yet.
func (m *Machine) exitRecord() *rendezvous.Exit {
	w, g := m.seen.world, m.local.group
	saved := w.Phase == rendezvous.Waiting && w.Hold.Planned
	x := &rendezvous.Exit{Incarnation: m.self.node.Incarnation, Codes: make([]*int, w.Workers(w.Rank(m.self.node.Ref)))}
	switch {
	case (g == nil || m.waiting()) && saved && !m.out.UnderWay(outbox.Start): // it never started: nothing to save
		x.Planned = true
		return x
	case g == nil || g.world.Generation != w.Generation:
		return nil
	}
	all, some := true, false
	for i, code := range g.codes {
		x.Codes[i] = code
		all, some = all && code != nil, some || code != nil
	}
	if saved && m.quiet() && (!all || len(x.Codes) == 0) {
		x.Planned = true
	}
	if !some && !x.Planned {
		return nil
	}
	if all && w.Rank(m.self.node.Ref) == 0 && !g.closed {
		return nil // this record ends the job, or the wait for the last save: that save comes first
	}
	return x
}

// lastExit is the record that the store has of this node in the newest generation.
func (m *Machine) lastExit() *rendezvous.Exit {
	if m.local.exit.generation != m.generation() {
		return nil
	}
	return m.local.exit.record
}

// exitRev is its revision; 0 for none.
func (m *Machine) exitRev() int64 {
	if m.local.exit.generation != m.generation() {
		return 0
	}
	return m.local.exit.rev
}
