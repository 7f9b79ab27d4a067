package message

import (
	"fmt"
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
)

// tellSpare reports once that this node is a spare, and again after it was a member.
func (n *Notices) tellSpare(f *Facts) {
	w := f.World
	if w == nil || f.Store.Stale {
		return
	}
	r := plan.QuarantineOf(w, f.Node)
	switch {
	case f.Member:
		n.spare, n.quarantine = false, 0
	case f.Joined && r != nil && !f.Listed:
		if n.quarantine != r.Since {
			n.spare, n.quarantine = true, r.Since
			n.tellQuarantine(f, r)
		}
	case f.Joined && !f.Leaver && !f.Listed && !n.spare &&
		(w.Phase == rendezvous.Running || w.Phase == rendezvous.Forming):
		n.spare = true
		text := "standing by as a spare"
		if slices.Contains(f.Snapshot.Wish.Drain, f.Node.Node) {
			text = fmt.Sprintf("drained: no world takes this node until: elastic admit %s --job-id=%s", f.Node.Node,
				f.Job.Name)
		} else if w.Count >= w.NP {
			text += fmt.Sprintf(": np=%d is met", w.NP)
		} else {
			text += " until the next world"
		}
		n.say("%s", text)
	}
}

// tellQuarantine reports that this node is in quarantine, and how to lift it.
func (n *Notices) tellQuarantine(f *Facts, r *rendezvous.NodeRecord) {
	lift := fmt.Sprintf("elastic admit %s --job-id=%s", r.Node, f.Job.Name)
	n.say("this node is in quarantine for %s: %s; the others go on without it if they can. To lift it: %s",
		time.Duration(r.Quarantine), r.Text, lift)
}

// tellLeaving reports, after Ctrl-C, what happens to the job.
func (n *Notices) tellLeaving(f *Facts) {
	if f.Leaving == nil || n.leaving || f.Leaving.Status != 130 || f.Job == nil {
		return
	}
	n.leaving = true
	if f.Job.Made {
		n.say("leaving; job %s is stopped with its last node", f.Job.Name)
	} else {
		n.say("leaving; the job goes on or waits. Come back with the same line; end it with: elastic stop %s",
			f.Job.Name)
	}
	if g := f.Workers; g != nil && !g.Dead && !f.Leaving.Now {
		n.say("waiting for the workers to save and end, at most %s; Ctrl-C again does not wait",
			time.Duration(f.Job.Rules.Grace))
	}
}

// tellAway reports that the store does not answer, or that its answers are not accepted, and the end of
// that.
func (n *Notices) tellAway(f *Facts) {
	switch {
	case f.Joined && !f.Store.AwaySince.IsZero() && !n.away && f.Now.Sub(f.Store.AwaySince) > 2*time.Second:
		n.away = true
		goOn, saved := "", ", and nothing is saved"
		if g := f.Workers; g != nil && g.Started && !g.Dead {
			goOn, saved = "; workers go on", "; workers go on, and nothing is saved"
		}
		switch {
		case f.Store.SetBack:
			n.say("the server shows less of this job than it did%s", saved)
		case f.Store.WrongJob:
			n.say("the server does not hold this job any more%s", saved)
		case f.Store.Unreadable != nil:
			n.say("the job cannot be read: %v%s", f.Store.Unreadable, saved)
		default:
			n.say("the server does not answer%s", goOn)
		}
	case n.away && f.Store.AwaySince.IsZero():
		n.away = false
		n.say("the server answers again")
	}
}

// tellMissing reports how many nodes are missing.
func (n *Notices) tellMissing(f *Facts) {
	if !f.Joined || !f.Snapshot.Whole || !f.Current || f.Leaving != nil {
		return
	}
	w := f.World
	begun := w != nil && w.Attempt == f.Node.Attempt
	if begun {
		if w.Phase != rendezvous.Waiting {
			n.missing = ""
			return
		}
		if f.Listed && n.waiting < w.Rev {
			return // the wait is reported first
		}
	}
	present, wished, missing := plan.Shortage(f.Snapshot, f.View)
	lastCall := time.Duration(f.Job.Rules.LastCall)
	s := ""
	switch {
	case missing > 0:
		s = fmt.Sprintf("waiting for %s (%d of %d)", phrase.Count(missing, "more node"), present, wished)
	case f.Snapshot.LacksBrought():
		s = fmt.Sprintf("waiting for a node with a checkpoint, because the job is to go on from one. To begin "+
			"without: elastic rm %s, then start the nodes with --again", f.Job.Name)
	// a later World may have no last call
	case !begun && lastCall > 0 && present < f.Snapshot.Target(present):
		s = fmt.Sprintf("%d of %d nodes are here: waiting for others, at most %s", present, wished, lastCall)
	}
	if s == n.missing {
		return
	}
	if n.missing = s; s == "" {
		return
	}
	if missing > 0 && !n.hinted && f.Hint != "" {
		n.hinted = true
		s += ". " + f.Hint
	}
	n.say("%s", s)
}

// tellReach reports a node that never had an answer from this one at its address.
func (n *Notices) tellReach(f *Facts) {
	if !f.Joined || n.reach {
		return
	}
	for _, s := range f.Snapshot.Suspects {
		if s.Never && s.Incarnation == f.Node.Incarnation && s.Node == f.Node.Node {
			n.reach = true
			n.say("%s", OutOfReach(s.By, f.Node.Address))
			return
		}
	}
}

// OutOfReach says that node by cannot reach this node at its address, and what the user can do.
func OutOfReach(by, address string) string {
	return fmt.Sprintf("this node cannot be reached at %s by %s: "+
		"--host=ADDRESS of this machine that other nodes reach, or open the port (--port=P fixes it)", address, by)
}
