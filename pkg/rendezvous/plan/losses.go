package plan

import (
	"fmt"
	"slices"

	"github.com/elasticd/elastic/internal/phrase"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// lost returns the members that are gone, and those that are absent for longer than their World
// waits.
func (p *planner) lost() []verdict.Member {
	var lost []verdict.Member
	for _, m := range p.v.Members[:min(len(p.v.Members), len(p.w.Members))] {
		switch {
		case m.State == verdict.Gone:
		case m.State == verdict.Absent && p.w.Phase == rendezvous.Forming && m.PastWindow:
		case m.State == verdict.Absent && p.w.Phase == rendezvous.Running &&
			(m.PastCutLimit || m.WorkerFailed):
		default:
			continue
		}
		lost = append(lost, m)
	}
	if p.w.Phase == rendezvous.Forming && p.leaverGone() {
		for _, m := range p.v.Members[min(len(p.v.Members), len(p.w.Members)):] {
			if m.State == verdict.Gone && m.Registered {
				lost = append(lost, m)
			}
		}
	}
	return lost
}

// unreported returns the lost members and leavers that no event reports yet. One step can guard at
// most maxDropped of them; a later step reports the others.
func (p *planner) unreported() []verdict.Member {
	var out []verdict.Member
	for _, m := range p.v.Members {
		if m.State == verdict.Gone && p.isNewLoss(m) && len(out) < maxDropped {
			out = append(out, p.withDelay(m))
		}
	}
	return out
}

// isNewLoss reports whether the loss of m must be reported: it happened in this attempt, is not
// reported yet, and m did not announce its departure. A later incarnation of a leaver may have
// replaced its announcement. So a leaver counts as announced if its node has left since, or is
// registered again.
func (p *planner) isNewLoss(m verdict.Member) bool {
	if p.w == nil || p.w.Attempt != p.s.Job.Attempt || p.w.Phase.Ended() || m.Reason == "left" ||
		slices.Contains(p.w.ReportedLost, m.Incarnation) {
		return false
	}
	if m.Registered || !p.w.Leaver(m.Ref) {
		return true
	}
	leftNode := func(l membership.Left) bool { return l.Node == m.Node }
	return p.s.Node(m.Node) == nil && !slices.ContainsFunc(p.s.Left, leftNode)
}

// withDelay returns m with the time since the first sign.
func (p *planner) withDelay(m verdict.Member) verdict.Member {
	if !p.m.FirstSign.IsZero() {
		m.After = p.now.Sub(p.m.FirstSign)
	}
	return m
}

// LossText says which members are lost.
func LossText(lost []verdict.Member) string {
	var parts []string
	for _, m := range lost {
		if m.Reason == "left" {
			parts = append(parts, m.Node+" left")
		} else {
			parts = append(parts, fmt.Sprintf("%s was lost (%s)", m.Node, m.Why))
		}
	}
	return phrase.List(parts)
}

// lossesThatExplain returns the members that explain the failure of another node's worker. They
// were lost, or left without waiting for the others to save.
func (p *planner) lossesThatExplain() []verdict.Member {
	var broke []verdict.Member
	for _, m := range p.lost() {
		switch f, x := p.s.Failure, p.s.Exits[m.Node]; {
		case slices.Contains(p.w.ReportedLost, m.Incarnation):
			// The ledger has counted it already.
		case m.Reason != "left":
			broke = append(broke, m)
		case p.w.Rank(m.Ref) < 0, x.Incarnation == m.Incarnation && x.Zero():
			// It was a leaver, or its workers had ended with 0.
		case f != nil && f.Node == m.Node && f.Incarnation == m.Incarnation:
			// Its own worker failed before it left.
		case p.w.Phase == rendezvous.Waiting && !p.now.Before(p.m.FailedAt.Add(p.t.Verdict)):
			// The others were stopped already.
		default:
			broke = append(broke, m)
		}
	}
	return broke
}
