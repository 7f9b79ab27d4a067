package machine

import (
	"fmt"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// lines is what the user was told already, so that nothing is told twice.
type lines struct {
	entered []string
	missing string
	hinted  bool
	reach   bool
	unready schema.Generation
	forming schema.Generation
	running schema.Generation
	waiting int64
	why     string // what the last Hold was for
	spare   bool
	away    bool
	ended   bool
	leaving bool
}

func (m *Machine) say(a *actions, format string, args ...any) {
	a.do("", Say{Line{Text: fmt.Sprintf(format, args...)}})
}

// tell says what changed, in the forms of docs/REFERENCE.md.
func (m *Machine) tell(now time.Time, a *actions) {
	l := &m.lines
	for _, s := range l.entered {
		m.say(a, "%s", s)
	}
	l.entered = nil
	m.tellAway(now, a)
	w := m.world
	if w != nil && !m.stale {
		rank, member := m.member()
		switch {
		case w.Phase.Ended() && !l.ended && (m.in && w.Attempt == m.me.Attempt || m.over != nil && m.over.Err == nil && m.leave == nil):
			l.ended = true
			m.tellEnd(a)
		case w.Phase == rendezvous.Forming && l.forming < w.Generation && m.in:
			l.forming = w.Generation
			if m.belonged && w.CauseText != "" && w.CauseText != l.why { // no Hold told it
				m.say(a, "%s", w.CauseText)
			}
			l.why = ""
			m.say(a, "generation %d starting: %s", w.Generation, names(w))
		case (w.Phase == rendezvous.Running || w.Phase == rendezvous.Finishing) && member && m.crew != nil && m.crew.started &&
			m.crew.world.Generation == w.Generation && l.running < w.Generation:
			l.running, l.spare = w.Generation, false
			m.say(a, "generation %d running: world size %d, rank %d here, %s%s", w.Generation, w.Size(), rank*w.Slots, from(w), m.idleText(now))
		case w.Phase == rendezvous.Waiting && l.waiting < w.Rev && m.idle() && m.in && m.belonged:
			l.waiting = w.Rev
			wished := w.NP
			if m.snap.Whole {
				wished = m.snap.Wish.NP
			}
			l.why = w.Hold.Text
			m.say(a, "wait: %s%s; %d of %d nodes", w.Hold.Text, stopped(w.Hold), w.Hold.Present, wished)
		}
		if m.in && !member && !w.Leaver(m.me.Ref) && !m.belonged && (w.Phase == rendezvous.Running || w.Phase == rendezvous.Forming) && !l.spare {
			l.spare = true
			m.say(a, "standing by as a spare")
		}
		if member {
			l.spare = false
		}
	}
	m.tellMissing(a)
	m.tellReach(a)
	if m.leave != nil && !l.leaving && m.leave.Status == 130 && m.job != nil {
		l.leaving = true
		if m.job.Made {
			m.say(a, "leaving; job %s is stopped with its last node", m.job.Name)
		} else {
			m.say(a, "leaving; the job goes on or waits. Come back with the same line; end it with: elastic stop %s", m.job.Name)
		}
	}
}

func (m *Machine) tellAway(now time.Time, a *actions) {
	l := &m.lines
	switch {
	case m.in && !m.away.IsZero() && !l.away && now.Sub(m.away) > 2*time.Second:
		l.away = true
		if m.foreign {
			m.say(a, "the server does not hold this job any more; workers go on, and nothing is saved")
		} else {
			m.say(a, "the server does not answer; workers go on")
		}
	case l.away && m.away.IsZero():
		l.away = false
		m.say(a, "the server answers again")
	}
}

func (m *Machine) tellMissing(a *actions) {
	l := &m.lines
	if !m.in || !m.snap.Whole || !m.current() || m.leave != nil {
		return
	}
	if w := m.world; w != nil && w.Attempt == m.me.Attempt {
		if w.Phase != rendezvous.Waiting {
			l.missing = ""
			return
		}
		if m.belonged && l.waiting < w.Rev {
			return // first what happened, then whom it takes
		}
	}
	present, wished, missing := rendezvous.Shortage(&m.snap, m.view)
	if missing == 0 {
		l.missing = ""
		return
	}
	s := fmt.Sprintf("waiting for %s (%d of %d)", phrase.Count(missing, "more node"), present, wished)
	if s == l.missing {
		return
	}
	l.missing = s
	if !l.hinted && m.cfg.Hint != "" {
		l.hinted = true
		s += ". " + m.cfg.Hint
	}
	m.say(a, "%s", s)
}

// tellReach says which node never had an answer from this one at the address that it announced.
func (m *Machine) tellReach(a *actions) {
	if !m.in || m.lines.reach {
		return
	}
	for _, s := range m.snap.Suspects {
		if s.Never && s.Incarnation == m.me.Incarnation && s.Node == m.me.Node {
			m.lines.reach = true
			m.say(a, "%s", OutOfReach(s.By, m.me.Address))
			return
		}
	}
}

func (m *Machine) tellEnd(a *actions) {
	w := m.world
	switch w.Phase {
	case rendezvous.Done:
		text := fmt.Sprintf("job %s done: %s, %s lost", m.job.Name, phrase.Count(w.Ledger.Ran, "generation"), phrase.Count(w.Ledger.Lost, "node"))
		if p := m.snap.Progress; p != nil && p.Step != nil {
			text += fmt.Sprintf(", %d steps", *p.Step)
		}
		m.say(a, "%s", text)
	case rendezvous.Stopped:
		m.say(a, "job %s stopped: %s", m.job.Name, w.Outcome.Message)
	case rendezvous.Failed:
		o := w.Outcome
		if o.Source == "worker" && o.Rank != nil {
			a.do("", Say{Line{Raw: true, Text: fmt.Sprintf("ABORT!!! Out of all %d trainers, the trainer process with rank=[%d] was aborted. Please check its log.", w.Size(), *o.Rank)}})
			how := fmt.Sprintf("exit code %d", o.Code)
			if o.Signal != nil {
				how = "ended by " + *o.Signal
			}
			log := m.logs + "/"
			if *o.Node != m.me.Node {
				log = "on node " + *o.Node + ": " // where it has its logs only that node knows
			}
			m.say(a, "  rank %d, node %s, local rank %d, generation %d: %s; log %sworkerlog.%d", *o.Rank, *o.Node, *o.LocalRank, w.Generation, how, log, *o.LocalRank)
		}
		m.say(a, "job %s failed: %s; exit code %d", m.job.Name, o.Message, o.Code)
	}
}

func (m *Machine) idleText(now time.Time) string {
	if m.since.IsZero() || m.world.Previous == 0 {
		return ""
	}
	return fmt.Sprintf("; %.1fs without training", now.Sub(m.since).Seconds())
}

func from(w *rendezvous.World) string {
	switch r := w.Resume; {
	case r == nil:
		return "from scratch"
	case r.Step == nil:
		return fmt.Sprintf("from checkpoint %d", r.Number)
	default:
		return fmt.Sprintf("from checkpoint %d (step %d)", r.Number, *r.Step)
	}
}

func stopped(h *rendezvous.Hold) string {
	if h.Planned {
		return "; workers asked to save, and stopped"
	}
	return "; workers stopped"
}

// names lists the members, the first of many.
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
