package message

// This file decides which lines the user gets, in the forms of docs/REFERENCE.md. It reports each
// fact once.

import (
	"fmt"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// Facts are the inputs of the lines.
type Facts struct {
	Now  time.Time
	Hint string // how to bring more nodes, printed once while some are missing
	Logs string // directory of the logs of this node's workers
	Node membership.Node
	Job  *rendezvous.Job

	Joined bool // registered, or a member that lost only its registration
	Listed bool // a world listed this incarnation
	Member bool // the newest world lists it, at node rank Rank
	Rank   int
	Leaver bool // the newest World waits until it has stopped

	World    *rendezvous.World // the newest; nil: none
	Snapshot *rendezvous.Snapshot
	Current  bool // Snapshot shows World
	View     verdict.View
	Store    Store

	Workers *Workers // nil: there are none
	Quiet   bool     // none of them takes part in a collective of its generation

	Leaving *Leaving // nil: this node stays
	Over    *Result  // nil: it has not left
}

// Store says whether the store answers, and whether its answers are accepted.
type Store struct {
	AwaySince  time.Time // since when it does not answer; zero: it answers
	Stale      bool      // this process stood still, and has not read since then
	SetBack    bool      // it shows an older state of the job
	WrongJob   bool      // it does not have this job as it is
	Unreadable error     // it has a record that this version cannot read
}

// Workers are the workers of this node.
type Workers struct {
	World   *rendezvous.World // of their generation
	Started bool
	Handed  bool // they waited for World: the state comes from memory, of these workers or of others
	Paused  bool // they wait for the next generation
	Dead    bool // no process of them is left
}

// Notices keeps what was printed for the user.
type Notices struct {
	queued []string
	lines  []Line // of the present call of Lines

	missing string            // the last line about missing nodes
	hinted  bool              // Facts.Hint was printed
	reach   bool              // it was printed that other nodes do not reach this one
	forming schema.Generation // the newest one that was printed as starting
	running schema.Generation // the newest one that was printed as running
	waiting int64             // revision of the newest waiting World that was printed
	why     string            // text of the last Hold
	spare   bool              // it was printed that this node is a spare

	quarantine schema.Generation // the newest one that put this node into quarantine
	away       bool              // it was printed that the store does not answer
	ended      bool              // the end of the attempt was printed
	leaving    bool              // it was printed that this node leaves
}

// Queue adds lines that are printed once answers of the store are accepted.
func (n *Notices) Queue(text ...string) { n.queued = append(n.queued, text...) }

// JobRemade forgets the revisions of a store that was lost.
func (n *Notices) JobRemade() { n.waiting = 0 }

// Lines returns the lines about what changed.
func (n *Notices) Lines(f *Facts) []Line {
	n.lines = nil
	n.tellAll(f)
	return n.lines
}

// tellAll adds the lines about what changed.
func (n *Notices) tellAll(f *Facts) {
	if f.Store.Stale && f.Joined {
		n.tellAway(f) // if the store does not answer, no later event ends the wait
		return
	}
	for _, s := range n.queued {
		n.say("%s", s)
	}
	n.queued = nil
	n.tellAway(f)
	n.tellWorld(f)
	n.tellSpare(f)
	n.tellMissing(f)
	n.tellReach(f)
	n.tellLeaving(f)
}

// say adds a line.
func (n *Notices) say(format string, args ...any) {
	n.lines = append(n.lines, Line{Text: fmt.Sprintf(format, args...)})
}

// tellWorld reports the newest World, once for each phase.
func (n *Notices) tellWorld(f *Facts) {
	w, g := f.World, f.Workers
	if w == nil || f.Store.Stale {
		return
	}
	switch w.Phase {
	case rendezvous.Forming:
		if n.forming < w.Generation && f.Joined {
			n.tellForming(f, w)
		}
	case rendezvous.Running, rendezvous.Finishing:
		if f.Member && g != nil && g.Started && g.World.Generation == w.Generation &&
			n.running < w.Generation {
			n.running, n.spare = w.Generation, false
			n.say("generation %d running: world size %d, rank %d here, %s%s",
				w.Generation, w.Size(), w.WorkerRank(f.Rank, 0), g.from(), idleText(w))
		}
	case rendezvous.Waiting:
		if n.waiting < w.Rev && f.Quiet && f.Joined && f.Listed {
			n.tellWait(f, w)
		}
	default:
		left := f.Over != nil && f.Over.Err == nil && f.Leaving == nil
		if !n.ended && (f.Joined && w.Attempt == f.Node.Attempt || left) {
			n.ended = true
			n.tellEnd(f)
			n.tellCheckpoint(f)
		}
	}
}

// tellForming reports the cause of a generation, and that it starts.
func (n *Notices) tellForming(f *Facts, w *rendezvous.World) {
	before := n.forming > 0 || n.running > 0 || n.waiting > 0 || n.spare // a node that has just joined
	n.forming = w.Generation
	if f.Listed && before && w.CauseText != "" && w.CauseText != n.why { // no Hold reported it
		n.say("%s", w.CauseText)
	}
	if f.Listed && w.Unsaved != "" && !strings.Contains(n.why, w.Unsaved) {
		n.say("the workers %s", w.Unsaved)
	}
	n.why = ""
	n.say("generation %d starting: %s", w.Generation, names(w))
}

// tellWait reports why no worker trains.
func (n *Notices) tellWait(f *Facts, w *rendezvous.World) {
	wished := w.NP
	if f.Snapshot.Whole {
		wished = f.Snapshot.Wish.NP
	}
	n.waiting, n.why = w.Rev, w.Hold.Text
	became := stopped(w.Hold)
	if f.Workers != nil && f.Workers.Paused {
		became = "; workers wait with the state in memory"
	}
	count := fmt.Sprintf("%d of %d nodes", w.Hold.Present, wished)
	if w.Hold.Present > wished {
		count = fmt.Sprintf("%s here, %d needed", phrase.Count(w.Hold.Present, "node"), wished)
	}
	n.say("wait: %s%s; %s", w.Hold.Text, became, count)
}
