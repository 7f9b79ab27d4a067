// Package workers is the part of an agent that decides about the workers of its node: when a
// generation is prepared, when workers start, stay for the next World and end, when their captures
// end, and how their end is reported to the others.
package workers

import (
	"time"

	"github.com/elasticd/elastic/internal/agent/message"
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
	Rank   int  // node rank in World; -1: it is no member

	World *rendezvous.World // the newest; nil: none
	AsOf  time.Time         // when the newest read began whose result is World
	Ran   schema.Generation // the newest generation known to have run
	// Dropped: a World had this incarnation, and the newest one does not.
	Dropped bool
	Stale   bool // this process stood still, and has not read since
	// Overtaken is a generation that a peer announced while the store could not be asked about it;
	// 0: none.
	Overtaken schema.Generation

	AwaySince time.Time        // since when the store does not answer; zero: it answers
	Leaving   *message.Leaving // not nil: this node leaves
	Over      bool             // this node has left, or cannot take part
}

// member reports whether this node is a member of World.
func (f *Facts) member() bool { return f.Rank >= 0 }

// generation returns the generation of the newest World.
func (f *Facts) generation() schema.Generation {
	if f.World == nil {
		return 0
	}
	return f.World.Generation
}

// hurried reports whether this node leaves without waiting for anything.
func (f *Facts) hurried() bool { return f.Leaving != nil && f.Leaving.Now }

// Workers is the state of the workers of this node.
type Workers struct {
	Group *Group // the newest group; nil: none is left

	floor     schema.Generation // no generation up to this one is started again
	ready     schema.Generation // the newest generation that was reported Ready
	ports     []int
	resume    message.Resume
	inMemory  bool // no checkpoint was fetched for that generation
	exit      reportedExit
	stopMS    int64             // duration of the last stop of workers
	idleAt    time.Time         // when their last process ended; zero: there was none
	stopped   schema.Generation // generation of the workers that were stopped last
	idleSince time.Time         // since when no worker has run here
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
	Halt      message.Halt
	First     bool // they wait for their first World, and World is only similar to it
	Handed    bool // they waited for World: the state comes from memory, of these workers or of others
	Paused    bool // they left their generation and wait for the next World
	Dead      bool // no process of it is left

	codes        []*int // exit codes by local rank; nil: it runs, or its code does not count
	failRev      int64  // revision of the World under which failures were reported
	reported     int    // the number of reported failures
	haltedAt     time.Time
	endedAt      time.Time // when the last of them had ended with 0
	canStay      bool      // each of them reported that it can stay
	unfit        bool      // one of them ended, or did not leave or wait as it should
	held         *int64    // the lowest step of the waiting workers; nil: one has none
	closed       bool      // no capture of it is under way
	closingSince time.Time
	lastSave     bool // what they left complete is being saved
}

// New returns the state of a node on which no worker has run.
func New(now time.Time) *Workers { return &Workers{idleSince: now} }

// Idle reports whether no worker, and no capture, of any generation is left here.
func (w *Workers) Idle() bool {
	g := w.Group
	return g == nil || g.Dead && g.closed
}

// Quiet reports whether no worker here takes part in a collective of its generation, and no capture
// is under way. Ready for a newer generation depends on it.
func (w *Workers) Quiet() bool {
	g := w.Group
	return w.Idle() || g.Paused && g.closed
}

// Prepared reports whether generation or a newer one was reported Ready.
func (w *Workers) Prepared(generation schema.Generation) bool { return w.ready >= generation }

// IdleFor returns how long no worker has run here. The caller must call it while workers run, too.
func (w *Workers) IdleFor(now time.Time) time.Duration {
	if g := w.Group; g != nil && !g.Dead && !g.First {
		w.idleSince = now
	}
	return now.Sub(w.idleSince)
}

// Stay reports whether the workers of a generation that runs here can stay for the next one.
func (w *Workers) Stay() bool { return w.Group != nil && !w.Group.First && w.Group.canStay }

// Joined records that this node joined, or that the job was made again: nothing of its workers is reported so far.
// Revisions of the store before say nothing, because another store may count up to the same ones.
func (w *Workers) Joined() {
	w.exit = reportedExit{}
	if w.Group != nil {
		w.Group.failRev, w.Group.reported = 0, 0
	}
}

// Unready records that Ready of that generation is not in the store any more.
func (w *Workers) Unready(generation schema.Generation) { w.ready = min(w.ready, generation-1) }

// Forget drops the group, of which no process is left.
func (w *Workers) Forget() { w.Group = nil }
