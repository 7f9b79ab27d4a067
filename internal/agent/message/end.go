package message

import (
	"fmt"
	"strings"

	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// tellEnd reports how the attempt ended.
func (n *Notices) tellEnd(f *Facts) {
	w := f.World
	switch w.Phase {
	case rendezvous.Done:
		text := fmt.Sprintf("job %s done: %s, %s lost",
			f.Job.Name, phrase.Count(w.Ledger.Ran, "generation"), phrase.Count(w.Ledger.Lost, "node"))
		if p := f.Snapshot.Progress; p != nil && p.Step != nil {
			text += fmt.Sprintf(", %d steps", *p.Step)
		}
		n.say("%s", text)
	case rendezvous.Stopped:
		n.say("job %s stopped: %s", f.Job.Name, w.Outcome.Message)
	case rendezvous.Failed:
		o := w.Outcome
		switch {
		case o.Source != "worker":
		case o.Failure != nil && o.Failure.Process.Name != "":
			x := o.Failure
			n.say("  %s, node %s, generation %d: %s; log %s",
				x.Process.Name, x.Node, w.Generation, x.Ended(), f.logOf(x.Node)+x.Process.Log)
			n.sayFailure(x)
		case o.Rank != nil:
			text := fmt.Sprintf(
				"ABORT!!! Out of all %d trainers, the trainer process with rank=[%d] was aborted. "+
					"Please check its log.", w.Size(), *o.Rank)
			n.lines = append(n.lines, Line{Raw: true, Text: text})
			n.say("  rank %d, node %s, local rank %d, generation %d: %s; log %sworkerlog.%d",
				*o.Rank, *o.Node, *o.LocalRank, w.Generation, o.HowEnded(), f.logOf(*o.Node), *o.LocalRank)
			n.sayFailure(o.Failure)
		}
		n.say("job %s failed: %s; exit code %d", f.Job.Name, o.Message, o.Code)
	}
}

// logOf returns the prefix of the name of a log of a node.
func (f *Facts) logOf(node string) string {
	if node == f.Node.Node {
		return f.Logs + "/"
	}
	return "on node " + node + ": " // only that node knows where its logs are
}

// shownLines is the number of lines of a traceback on the terminal. The log has all of it.
const shownLines = 30

// sayFailure reports why a worker failed, and which others failed because of it.
func (n *Notices) sayFailure(failure *rendezvous.Failure) {
	if failure == nil {
		return
	}
	lines := failure.Lines()
	for _, line := range lines[max(0, len(lines)-shownLines):] {
		n.say("  %s", strings.ReplaceAll(line, "\t", "    "))
	}
}

// tellCheckpoint reports, at the end, where the newest checkpoint is and how to get its files. It
// reports nothing if the store was set back, because the store shows an older checkpoint then.
func (n *Notices) tellCheckpoint(f *Facts) {
	s := f.Snapshot
	if s.World == nil || s.World.Generation < f.World.Generation || s.Head.Number == 0 || !s.Whole {
		return
	}
	if o := f.World.Outcome; o != nil && o.Why == rendezvous.CheckpointLost {
		return // no holder can read it
	}
	var holders []string
	for _, r := range s.Head.Holders {
		if s.HoldsAll(r.Node) {
			holders = append(holders, r.Node)
		}
	}
	if len(holders) == 0 {
		return
	}
	there := ""
	if !s.HoldsAll(f.Node.Node) {
		there = " there"
	}
	n.say("checkpoint %d%s is on %s; to get its files: elastic ckpt get %s %d DIR%s",
		s.Head.Number, atStep(s.Head.Step), phrase.List(holders), f.Job.Name, s.Head.Number, there)
}

// atStep formats a step for a message.
func atStep(step *int64) string {
	if step == nil {
		return ""
	}
	return fmt.Sprintf(" (step %d)", *step)
}

// idleText is the time without training, from the record of the World, so that all nodes print the
// same.
func idleText(w *rendezvous.World) string {
	if w.IdleMS == 0 {
		return ""
	}
	return fmt.Sprintf("; %.1fs without training", float64(w.IdleMS)/1000)
}

// from says what the workers of a group start from.
func (g *Workers) from() string {
	w := g.World
	if g.Handed {
		return "from memory"
	}
	if w.Resume == nil {
		return "from scratch"
	}
	return fmt.Sprintf("from checkpoint %d%s", w.Resume.Number, atStep(w.Resume.Step))
}

// stopped says what happened to the workers when a World began to wait.
func stopped(h *rendezvous.Hold) string {
	if h.Planned {
		return "; workers asked to save, and stopped"
	}
	return "; workers stopped"
}

// names lists the members, or the first of many.
func names(w *rendezvous.World) string {
	const most = 16
	var s []string
	for i, r := range w.Members {
		if i == most {
			s = append(s, fmt.Sprintf("and %d more", len(w.Members)-most))
			break
		}
		s = append(s, r.Node)
	}
	return strings.Join(s, ", ")
}
