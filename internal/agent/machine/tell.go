package machine

import (
	"fmt"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
)

// told is what the user was told already, so that no line comes twice.
type told struct {
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

	quarantine schema.Generation // that put this node into quarantine
	away       bool
	ended      bool
	leaving    bool
}

func (m *Machine) say(format string, args ...any) {
	m.do(action.Say{Line: action.Line{Text: fmt.Sprintf(format, args...)}})
}

// tell says what changed, in the forms of docs/REFERENCE.md.
func (m *Machine) tell() {
	if m.seen.stale && m.self.joined {
		m.tellAway() // of a store that does not answer, nothing would end that
		return
	}
	for _, s := range m.told.entered {
		m.say("%s", s)
	}
	m.told.entered = nil
	m.tellAway()
	m.tellWorld()
	m.tellSpare()
	m.tellMissing()
	m.tellReach()
	m.tellLeaving()
}

// tellWorld says what became of the newest world, once for each phase.
func (m *Machine) tellWorld() {
	t, w, g := &m.told, m.seen.world, m.local.group
	if w == nil || m.seen.stale {
		return
	}
	rank, member := m.member()
	switch w.Phase {
	case rendezvous.Forming:
		if t.forming < w.Generation && m.self.joined {
			m.tellForming(w)
		}
	case rendezvous.Running, rendezvous.Finishing:
		if member && g != nil && g.started && g.world.Generation == w.Generation && t.running < w.Generation {
			t.running, t.spare = w.Generation, false
			m.say("generation %d running: world size %d, rank %d here, %s%s", w.Generation, w.Size(), w.WorkerRank(rank, 0),
				g.from(), idleText(w))
		}
	case rendezvous.Waiting:
		if t.waiting < w.Rev && m.quiet() && m.self.joined && m.self.listed {
			m.tellWait(w)
		}
	default:
		left := m.over != nil && m.over.Err == nil && m.leave == nil
		if !t.ended && (m.self.joined && w.Attempt == m.self.node.Attempt || left) {
			t.ended = true
			m.tellEnd()
			m.tellCheckpoint()
		}
	}
}

func (m *Machine) tellForming(w *rendezvous.World) {
	t := &m.told
	t.forming = w.Generation
	if m.self.listed && w.CauseText != "" && w.CauseText != t.why { // no Hold told it
		m.say("%s", w.CauseText)
	}
	t.why = ""
	m.say("generation %d starting: %s", w.Generation, names(w))
}

func (m *Machine) tellWait(w *rendezvous.World) {
	wished := w.NP
	if m.seen.snap.Whole {
		wished = m.seen.snap.Wish.NP
	}
	m.told.waiting, m.told.why = w.Rev, w.Hold.Text
	became := stopped(w.Hold)
	if m.local.group != nil && m.local.group.paused {
		became = "; workers wait with the state in memory"
	}
	count := fmt.Sprintf("%d of %d nodes", w.Hold.Present, wished)
	if w.Hold.Present > wished {
		count = fmt.Sprintf("%s here, %d needed", phrase.Count(w.Hold.Present, "node"), wished)
	}
	m.say("wait: %s%s; %s", w.Hold.Text, became, count)
}

// tellSpare says once that this node stands by, and again after it was a member.
func (m *Machine) tellSpare() {
	t, w := &m.told, m.seen.world
	if w == nil || m.seen.stale {
		return
	}
	_, member := m.member()
	r := plan.QuarantineOf(w, m.self.node)
	switch {
	case member:
		t.spare, t.quarantine = false, 0
	case m.self.joined && r != nil && !m.self.listed:
		if t.quarantine != r.Since {
			t.spare, t.quarantine = true, r.Since
			m.tellQuarantine(r)
		}
	case m.self.joined && !m.leaver() && !m.self.listed && !t.spare &&
		(w.Phase == rendezvous.Running || w.Phase == rendezvous.Forming):
		t.spare = true
		text := "standing by as a spare"
		if w.Count >= w.NP {
			text += fmt.Sprintf(": np=%d is met", w.NP)
		}
		m.say("%s", text)
	}
}

func (m *Machine) tellQuarantine(r *rendezvous.NodeRecord) {
	lift := fmt.Sprintf("elastic admit %s --job-id=%s", r.Node, m.self.job.Name)
	if r.UntilAdmitted {
		m.say("this node is in quarantine: %s; the others go on without it. Start it again with a program that runs, or, if it would run now: %s",
			r.Text, lift)
		return
	}
	m.say("this node is in quarantine for %s: %s; the others go on without it. To lift it: %s",
		time.Duration(r.Quarantine), r.Text, lift)
}

func (m *Machine) tellLeaving() {
	if m.leave == nil || m.told.leaving || m.leave.Status != 130 || m.self.job == nil {
		return
	}
	m.told.leaving = true
	if m.self.job.Made {
		m.say("leaving; job %s is stopped with its last node", m.self.job.Name)
	} else {
		m.say("leaving; the job goes on or waits. Come back with the same line; end it with: elastic stop %s",
			m.self.job.Name)
	}
	if g := m.local.group; g != nil && !g.dead && !m.leave.Now {
		m.say("waiting for the workers to save and end, at most %s; Ctrl-C again does not wait",
			time.Duration(m.self.job.Rules.Grace))
	}
}

func (m *Machine) tellAway() {
	t := &m.told
	switch {
	case m.self.joined && !m.seen.awaySince.IsZero() && !t.away && m.now.Sub(m.seen.awaySince) > 2*time.Second:
		t.away = true
		switch {
		case m.seen.setBack:
			m.say("the server shows less of this job than it did; workers go on, and nothing is saved")
		case m.seen.wrongJob:
			m.say("the server does not hold this job any more; workers go on, and nothing is saved")
		case m.seen.unreadable != nil:
			m.say("the job cannot be read: %v; workers go on, and nothing is saved", m.seen.unreadable)
		default:
			m.say("the server does not answer; workers go on")
		}
	case t.away && m.seen.awaySince.IsZero():
		t.away = false
		m.say("the server answers again")
	}
}

func (m *Machine) tellMissing() {
	t := &m.told
	if !m.self.joined || !m.seen.snap.Whole || !m.current() || m.leave != nil {
		return
	}
	if w := m.seen.world; w != nil && w.Attempt == m.self.node.Attempt {
		if w.Phase != rendezvous.Waiting {
			t.missing = ""
			return
		}
		if m.self.listed && t.waiting < w.Rev {
			return // the wait itself is told first
		}
	}
	present, wished, missing := plan.Shortage(&m.seen.snap, m.peers.view)
	lastCall := time.Duration(m.self.job.Rules.LastCall)
	s := ""
	switch {
	case missing > 0:
		s = fmt.Sprintf("waiting for %s (%d of %d)", phrase.Count(missing, "more node"), present, wished)
	case lastCall > 0 && present < m.seen.snap.Target(present):
		s = fmt.Sprintf("%d of %d nodes are here: waiting for others, at most %s", present, wished, lastCall)
	}
	if s == t.missing {
		return
	}
	if t.missing = s; s == "" {
		return
	}
	if missing > 0 && !t.hinted && m.cfg.Hint != "" {
		t.hinted = true
		s += ". " + m.cfg.Hint
	}
	m.say("%s", s)
}

// tellReach says which node never had an answer from this one at the address that it announced.
func (m *Machine) tellReach() {
	if !m.self.joined || m.told.reach {
		return
	}
	for _, s := range m.seen.snap.Suspects {
		if s.Never && s.Incarnation == m.self.node.Incarnation && s.Node == m.self.node.Node {
			m.told.reach = true
			m.say("%s", OutOfReach(s.By, m.self.node.Address))
			return
		}
	}
}

// OutOfReach says that node by cannot reach this node at its address, and what to do.
func OutOfReach(by, address string) string {
	return fmt.Sprintf("this node cannot be reached at %s by %s: --host=ADDRESS of this machine that other nodes reach, or open the port (--port=P fixes it)", address, by)
}

func (m *Machine) tellEnd() {
	w := m.seen.world
	switch w.Phase {
	case rendezvous.Done:
		text := fmt.Sprintf("job %s done: %s, %s lost", m.self.job.Name, phrase.Count(w.Ledger.Ran, "generation"),
			phrase.Count(w.Ledger.Lost, "node"))
		if p := m.seen.snap.Progress; p != nil && p.Step != nil {
			text += fmt.Sprintf(", %d steps", *p.Step)
		}
		m.say("%s", text)
	case rendezvous.Stopped:
		m.say("job %s stopped: %s", m.self.job.Name, w.Outcome.Message)
	case rendezvous.Failed:
		o := w.Outcome
		switch {
		case o.Source != "worker":
		case o.Failure != nil && o.Failure.Process.Name != "":
			f := o.Failure
			m.say("  %s, node %s, generation %d: %s; log %s", f.Process.Name, f.Node, w.Generation, f.Ended(),
				m.logOf(f.Node)+f.Process.Log)
			m.sayFailure(f)
		case o.Rank != nil:
			text := fmt.Sprintf("ABORT!!! Out of all %d trainers, the trainer process with rank=[%d] was aborted. "+
				"Please check its log.", w.Size(), *o.Rank)
			m.do(action.Say{Line: action.Line{Raw: true, Text: text}})
			m.say("  rank %d, node %s, local rank %d, generation %d: %s; log %sworkerlog.%d", *o.Rank, *o.Node,
				*o.LocalRank, w.Generation, howEnded(o), m.logOf(*o.Node), *o.LocalRank)
			m.sayFailure(o.Failure)
		}
		m.say("job %s failed: %s; exit code %d", m.self.job.Name, o.Message, o.Code)
	}
}

// logOf is what stands before the name of a log of a node.
func (m *Machine) logOf(node string) string {
	if node == m.self.node.Node {
		return m.self.logs + "/"
	}
	return "on node " + node + ": " // where it has its logs only that node knows
}

func howEnded(o *rendezvous.Outcome) string {
	switch {
	case o.Failure != nil:
		return o.Failure.Ended()
	case o.Signal != nil:
		return "ended by " + *o.Signal
	}
	return fmt.Sprintf("exit code %d", o.Code)
}

// shownLines is how many lines of a traceback the terminal gets; the log has it all.
const shownLines = 30

// sayFailure says why a worker failed, and who failed because of it.
func (m *Machine) sayFailure(f *rendezvous.Failure) {
	if f == nil {
		return
	}
	lines := f.Lines()
	for _, line := range lines[max(0, len(lines)-shownLines):] {
		m.say("  %s", strings.ReplaceAll(line, "\t", "    "))
	}
}

// tellCheckpoint says at the end where the newest checkpoint lies and how to get its files.
func (m *Machine) tellCheckpoint() {
	s := &m.seen.snap
	if s.Head.Number == 0 || !s.Whole {
		return
	}
	var holders []string
	for _, r := range s.Head.Holders {
		if s.Holds(r.Node) {
			holders = append(holders, r.Node)
		}
	}
	if len(holders) == 0 {
		return
	}
	there := ""
	if !s.Holds(m.self.node.Node) {
		there = " there"
	}
	m.say("checkpoint %d%s is on %s; to get its files: elastic ckpt get %s %d DIR%s", s.Head.Number,
		atStep(s.Head.Step),
		phrase.List(holders), m.self.job.Name, s.Head.Number, there)
}

func atStep(step *int64) string {
	if step == nil {
		return ""
	}
	return fmt.Sprintf(" (step %d)", *step)
}

// idleText is the time without training: the figure of the record, the same on every node.
func idleText(w *rendezvous.World) string {
	if w.IdleMS == 0 {
		return ""
	}
	return fmt.Sprintf("; %.1fs without training", float64(w.IdleMS)/1000)
}

// from says what the workers of a group go on from.
func (g *workerGroup) from() string {
	w := &g.world
	if g.handed {
		return "from memory"
	}
	if w.Resume == nil {
		return "from scratch"
	}
	return fmt.Sprintf("from checkpoint %d%s", w.Resume.Number, atStep(w.Resume.Step))
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
