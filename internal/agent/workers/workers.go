// Package workers is the part of an agent that decides about the workers of its node: when a
// generation is prepared, when its workers start, stay for the next one and end, when their
// captures end, and how their end is reported to the others.
package workers

import (
	"time"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// Facts are the inputs of a decision about workers, apart from the state of the workers.
type Facts struct {
	Now    time.Time
	Self   membership.Node
	Job    *rendezvous.Job
	Joined bool // this node is registered, or a member that lost only its registration
	Rank   int  // of this node in World; -1: it is no member

	World *rendezvous.World // the newest; nil: none
	AsOf  time.Time         // when the newest read began that has World as its result
	Ran   schema.Generation // the newest that is known to have run
	// Dropped: a world listed this incarnation, and the newest one does not.
	Dropped bool
	Stale   bool // this process stood still, and has not read since
	// Overtaken is a generation that a peer announced while the store could not be asked about it;
	// 0: none.
	Overtaken schema.Generation

	AwaySince time.Time      // the store does not answer since then; zero: it does
	Leaving   *event.Leaving // this node goes
	Over      bool           // it has left, or cannot take part
}

func (f *Facts) member() bool { return f.Rank >= 0 }

// generation is that of the newest world.
func (f *Facts) generation() schema.Generation {
	if f.World == nil {
		return 0
	}
	return f.World.Generation
}

// hurried reports whether this node goes without waiting for anything.
func (f *Facts) hurried() bool { return f.Leaving != nil && f.Leaving.Now }

// Workers are the groups that run on this node, or are prepared to run.
type Workers struct {
	Group *Group // the newest that was asked to start; nil: none is left

	floor     schema.Generation // no generation up to this one is started any more
	ready     schema.Generation // the newest that was reported Ready
	ports     []int
	resume    event.Resume
	inMemory  bool // no checkpoint was brought here for the generation that is ready
	exit      reportedExit
	stopMS    int64             // how long the newest stop of workers took
	idleAt    time.Time         // when nothing of them was left; zero: there were none
	stopped   schema.Generation // the generation of the workers that were stopped
	idleSince time.Time         // no worker has run here since then
}

// reportedExit is the exit record of this node in the store.
type reportedExit struct {
	generation schema.Generation
	rev        int64
	record     *rendezvous.Exit
}

// Group is the workers of one generation on this node.
type Group struct {
	World     rendezvous.World
	Started   bool
	StartedAt time.Time
	Failures  []rendezvous.Failure // in the order in which they were seen
	Halt      action.Halt
	First     bool // they wait for their first World, and World is one that they might be in
	Handed    bool // they waited for it: the state comes from memory, of these workers or of others
	Paused    bool // none of them takes part in its generation any more; they wait for the next one
	Dead      bool // no process of it is left

	codes        []*int
	failRev      int64 // revision of the world under which failures were reported
	reported     int   // how many of them were
	haltedAt     time.Time
	through      time.Time // when the last of them had ended with 0
	canStay      bool      // each of them said that it can take part in another generation
	unfit        bool      // one of them ended, or did not leave or wait as it should
	held         *int64    // the least step of the states of those that wait; nil: one holds none
	closed       bool      // no capture of it is under way
	closingSince time.Time
	lastSave     bool // what they left complete is being saved
}

// New is a node on which no worker has run.
func New(now time.Time) *Workers { return &Workers{idleSince: now} }

// Idle reports whether no worker, and no capture, of any generation is left here.
func (w *Workers) Idle() bool {
	g := w.Group
	return g == nil || g.Dead && g.closed
}

// Quiet reports whether no worker here takes part in a collective of its generation, and no capture
// is under way. It is what Ready for a newer one rests on.
func (w *Workers) Quiet() bool {
	g := w.Group
	return w.Idle() || g.Paused && g.closed
}

// Prepared reports whether generation, or a newer one, was reported Ready.
func (w *Workers) Prepared(generation schema.Generation) bool { return w.ready >= generation }

// IdleFor is how long no worker has run here. It must be asked while they run, too.
func (w *Workers) IdleFor(now time.Time) time.Duration {
	if g := w.Group; g != nil && !g.Dead && !g.First {
		w.idleSince = now
	}
	return now.Sub(w.idleSince)
}

// Stay reports whether the workers of a generation that runs here can stay for the next one.
func (w *Workers) Stay() bool { return w.Group != nil && !w.Group.First && w.Group.canStay }

// Joined takes in that this node joined: its new incarnation has reported no exit.
func (w *Workers) Joined() { w.exit = reportedExit{} }

// Forget drops the group, of which nothing is left.
func (w *Workers) Forget() { w.Group = nil }
