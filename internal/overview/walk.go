package overview

import (
	"strings"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// walk is the state after some of the events.
type walk struct {
	nodes       map[string]*nodeWalk
	job         Phase // of the members of the world
	generation  schema.Generation
	generations []Generation
	marks       []Mark
	commits     []Commit
	reason      string // the newest sentence that explains a new generation
}

// nodeWalk is the state of one node.
type nodeWalk struct {
	here, member, suspect, kept bool
	bars                        []Bar // the last one is open while its phase is not away
	phase                       Phase
}

func newWalk() *walk {
	return &walk{nodes: map[string]*nodeWalk{}, job: Waiting, generations: []Generation{},
		marks: []Mark{}, commits: []Commit{}}
}

// take applies one event.
func (w *walk) take(e *history.Event) {
	at := millis(e.Time)
	if sign := signOf(e); sign != "" {
		w.marks = append(w.marks, Mark{at, e.Kind, sign, e.Node, e.Generation, e.Text})
	}
	switch e.Kind {
	case history.NodeJoined, history.NodeSuspected, history.NodeCleared, history.NodeLost,
		history.NodeLeft, history.Quarantined, history.Admitted:
		w.node(e, at)
	case history.WishChanged:
		w.reason = e.Text
	case history.WorkerFailed:
		if !history.Field[bool](e, "collateral") { // else the loss is the reason
			w.reason = e.Text
		}
	case history.Bad, history.Distrusted:
		w.reason = e.Text
	case history.WaitEntered:
		w.wait(e, at)
	case history.WorldProposed:
		w.propose(e, at)
	case history.WorldRunning, history.Started:
		w.run(e, at)
	case history.Committed:
		w.commit(e, at)
	case history.JobDone, history.JobFailed, history.JobStopped:
		w.turn(away, at)
		w.job = Waiting // of the next attempt
		w.end(at)
		for _, n := range w.nodes {
			n.member = false
		}
	}
}

// node applies an event about one node.
func (w *walk) node(e *history.Event, at Millis) {
	n := w.of(e.Node)
	switch e.Kind {
	case history.NodeJoined:
		n.here, n.suspect = true, false
	case history.NodeSuspected:
		n.suspect = true
	case history.NodeCleared:
		n.suspect = false
	case history.NodeLost:
		n.here, n.member, n.suspect = false, false, false
		w.reason = e.Text
	case history.NodeLeft:
		reason := history.Field[string](e, "reason")
		n.here = reason == "scaled-in" || reason == "quarantined" // it is registered again at once
		n.member, n.suspect = false, false
		w.reason = e.Text
	case history.Quarantined:
		n.kept = true
		w.reason = e.Text
	case history.Admitted:
		n.kept = false
	}
	w.set(n, at)
}

func (w *walk) of(node string) *nodeWalk {
	n := w.nodes[node]
	if n == nil {
		n = &nodeWalk{}
		w.nodes[node] = n
	}
	return n
}

// phaseOf returns what a node does now.
func (w *walk) phaseOf(n *nodeWalk) Phase {
	switch {
	case !n.here:
		return away
	case n.suspect:
		return Suspected
	case n.member:
		return w.job
	case n.kept:
		return Quarantined
	case w.generation == 0 || w.job == Waiting:
		return Waiting
	}
	return Spare
}

// set opens a bar for a node whose phase, or generation, changed.
func (w *walk) set(n *nodeWalk, at Millis) { w.put(n, w.phaseOf(n), at) }

func (w *walk) put(n *nodeWalk, p Phase, at Millis) {
	last := len(n.bars) - 1
	if n.phase != away && last >= 0 {
		if n.bars[last].Phase == p && n.bars[last].Generation == w.generation {
			return
		}
		n.bars[last].To = at
		if n.bars[last].From >= at {
			n.bars = n.bars[:last]
		}
	}
	n.phase = p
	if p != away {
		n.bars = append(n.bars, Bar{From: at, Phase: p, Generation: w.generation})
	}
}

// turn changes the phase of all members.
func (w *walk) turn(p Phase, at Millis) {
	w.job = p
	for _, n := range w.nodes {
		if p == away && n.member {
			w.put(n, away, at)
			continue
		}
		w.set(n, at)
	}
}

// close ends the open bars, because the job has ended.
func (w *walk) close(at Millis) {
	for _, n := range w.nodes {
		if last := len(n.bars) - 1; n.phase != away && last >= 0 {
			n.bars[last].To = max(at, n.bars[last].From+1)
		}
	}
}

// end notes when the newest generation stopped training.
func (w *walk) end(at Millis) {
	if n := len(w.generations); n > 0 && w.generations[n-1].Ended == 0 {
		w.generations[n-1].Ended = at
	}
}

func (w *walk) wait(e *history.Event, at Millis) {
	p := Waiting
	switch rendezvous.Why(history.Field[string](e, "why_code")) {
	case rendezvous.Saving, rendezvous.Draining:
		p = Saving
	case rendezvous.BackingOff:
		p = Backoff
	}
	w.turn(p, at)
	w.end(at)
}

func (w *walk) propose(e *history.Event, at Millis) {
	w.end(at)
	members := membersOf(e)
	w.generation = e.Generation
	for _, n := range w.nodes {
		n.member = false
	}
	for _, name := range members {
		n := w.of(name)
		n.here, n.member, n.kept = true, true, false
	}
	w.turn(Starting, at)
	cause := history.Field[string](e, "cause")
	g := Generation{Number: e.Generation, Proposed: at, Cause: cause, Nodes: len(members),
		Size: history.Field[int](e, "world_size"), Text: causeText(rendezvous.Cause(cause), w.reason)}
	w.generations, w.reason = append(w.generations, g), ""
}

// membersOf returns the nodes of a world. It decodes no seat, because a large job has thousands.
func membersOf(e *history.Event) (names []string) {
	for _, s := range history.Field[[]any](e, "world") {
		seat, _ := s.(map[string]any)
		if name, ok := seat["node"].(string); ok {
			names = append(names, name)
		}
	}
	return names
}

// run starts the workers of the newest generation.
func (w *walk) run(e *history.Event, at Millis) {
	n := len(w.generations)
	if n == 0 || w.generations[n-1].Number != e.Generation {
		return
	}
	g := &w.generations[n-1]
	if t := history.Field[*rendezvous.Timing](e, "waterfall"); t != nil {
		g.Waterfall = t
	}
	if idle := history.Field[*int64](e, "idle_ms"); idle != nil {
		g.IdleMS = idle
	}
	if g.Running == 0 && e.Kind == history.WorldRunning {
		g.Running = at
		w.turn(Training, at)
	}
}

// recolour changes the phase of what was training in a generation from since on; 0: of nothing.
func (w *walk) recolour(of schema.Generation, since Millis, to Phase) {
	if since == 0 {
		return
	}
	for _, n := range w.nodes {
		var bars []Bar
		for _, b := range n.bars {
			if b.Generation != of || b.Phase != Training || b.To != 0 && b.To <= since {
				bars = append(bars, b)
				continue
			}
			if b.From < since {
				before := b
				before.To, b.From = since, since
				bars = append(bars, before)
			}
			b.Phase = to
			bars = append(bars, b)
		}
		n.bars = bars
	}
}

func (w *walk) commit(e *history.Event, at Millis) {
	w.commits = append(w.commits, Commit{At: at, Number: history.Field[int64](e, "number"),
		Step: history.Field[*int64](e, "step"), Copies: history.Field[int64](e, "copies")})
}

// causeText says why a generation began.
func causeText(c rendezvous.Cause, reason string) string {
	switch {
	case c == rendezvous.CauseFirst:
		return "the job began"
	case c == rendezvous.CauseAttempt:
		return "a new attempt began"
	case reason != "":
		return reason
	}
	return strings.ReplaceAll(string(c), "-", " ")
}
