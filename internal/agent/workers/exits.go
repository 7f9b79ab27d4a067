package workers

import (
	"reflect"
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// ReportEnd reports how workers here ended. The guard of a failure is the World and not the fence:
// once the World waits, a worker that ends is a victim of the stop.
func (w *Workers) ReportEnd(f *Facts, out *message.Outbox) {
	if !f.member() || f.Stale {
		return
	}
	world, g := f.World, w.Group
	if x := w.exitRecord(f, out); x != nil && !(x.Planned && f.Leaving != nil) &&
		!reflect.DeepEqual(x, w.LastExit(world.Generation)) {
		out.RequestFor(message.KindExit, world.Generation, message.ReportExit{World: *world, Node: f.Self.Node,
			Seen: w.exitRev(world.Generation), Exit: *x})
	}
	if g == nil || g.Halt != message.NoHalt || g.World.Generation != world.Generation ||
		world.Phase != rendezvous.Running && world.Phase != rendezvous.Finishing {
		return
	}
	failures := g.failuresToReport(f, out)
	if len(failures) == 0 || g.failRev == world.Rev && g.reported == len(failures) {
		return
	}
	report := message.ReportFailures{World: *world, Failures: slices.Clone(failures)}
	if out.RequestFor(message.KindFailure, world.Generation, report) {
		g.failRev, g.reported = world.Rev, len(failures)
	}
}

// signalSkew is how long after a worker its agent may get the SIGTERM that a scheduler sends to
// both.
const signalSkew = time.Second

// failuresToReport returns the failures of g to be reported to the others. A leaving node reports
// none: its planned Hold lets all save, and a failure would begin a new generation, which fences
// these saves off. If a SIGTERM ended every worker, it waits a moment, because the agents may get
// the signal as well.
func (g *Group) failuresToReport(f *Facts, out *message.Outbox) []rendezvous.Failure {
	if f.Leaving != nil || len(g.Failures) == 0 {
		return nil
	}
	if slices.ContainsFunc(g.Failures, func(x rendezvous.Failure) bool { return !message.StatusOfAsked(x.Code) }) {
		return g.Failures
	}
	if at := g.Failures[0].Time.Add(signalSkew); f.Now.Before(at) {
		out.Wake(at)
		return nil
	}
	return g.Failures
}

// exitRecord returns the exit record that this node should have in the store; nil: none yet.
func (w *Workers) exitRecord(f *Facts, out *message.Outbox) *rendezvous.Exit {
	world, g := f.World, w.Group
	saved := world.Phase == rendezvous.Waiting && world.Hold.Planned
	x := &rendezvous.Exit{Incarnation: f.Self.Incarnation, Codes: make([]*int, world.Workers(f.Rank))}
	switch {
	// It never started, so it has nothing to save.
	case (g == nil || w.waiting(f)) && saved && !out.UnderWay(message.KindStart):
		x.Planned, x.Waits = true, w.waiting(f)
		return x
	case g == nil || g.World.Generation != world.Generation:
		return nil
	}
	all, some := true, false
	for i, code := range g.codes {
		x.Codes[i] = code
		all, some = all && code != nil, some || code != nil
	}
	if saved && w.Quiet() && (!all || len(x.Codes) == 0) {
		x.Planned, x.Waits = true, g.Paused
	}
	if !some && !x.Planned {
		return nil
	}
	if all && f.Rank == 0 && !g.closed {
		return nil // this record ends the job, or the wait for the last save: the captures end first
	}
	return x
}

// LastExit returns the exit record of this node in the store for that generation, or nil.
func (w *Workers) LastExit(generation schema.Generation) *rendezvous.Exit {
	if w.exit.generation != generation {
		return nil
	}
	return w.exit.record
}

// exitRev returns the revision of that record; 0 for none.
func (w *Workers) exitRev(generation schema.Generation) int64 {
	if w.exit.generation != generation {
		return 0
	}
	return w.exit.rev
}
