package rendezvous

import (
	"fmt"
	"slices"

	"github.com/elasticd/elastic/pkg/membership"
)

// lost are the members that are gone, and those that are cut off for longer than is waited.
func (p *planner) lost() []membership.Seen {
	var lost []membership.Seen
	for _, m := range p.v.Members[:min(len(p.v.Members), len(p.w.Members))] {
		switch {
		case m.State == membership.Gone:
		case m.State == membership.Absent && p.w.Phase == Forming && m.Waited:
		case m.State == membership.Absent && p.w.Phase == Running && (m.Cut || m.Failed):
		default:
			continue
		}
		lost = append(lost, m)
	}
	if p.w.Phase == Forming && p.leaverGone() {
		for _, m := range p.v.Members[min(len(p.v.Members), len(p.w.Members)):] {
			if m.State == membership.Gone && m.Mine {
				lost = append(lost, m)
			}
		}
	}
	return lost
}

// untold are the members and leavers that are lost and that no event told of yet: the Hold that did names them. Not more
// than a Hold can guard; the next one names the others.
func (p *planner) untold() []membership.Seen {
	var out []membership.Seen
	for _, m := range p.v.Members {
		if m.State == membership.Gone && p.tells(m) && len(out) < maxDropped {
			out = append(out, p.news(m))
		}
	}
	return out
}

// tells reports whether the loss of m is news: in this attempt, told by nobody yet, and not of one that said good-bye. A leaver
// said it if it left since, or is back: its word is that of its name only, and a later life may have written over it.
func (p *planner) tells(m membership.Seen) bool {
	if p.w == nil || p.w.Attempt != p.s.Job.Attempt || p.w.Phase.Ended() || m.Reason == "left" || slices.Contains(p.w.Told, m.Incarnation) {
		return false
	}
	return m.Mine || !p.w.Leaver(m.Ref) || p.s.Node(m.Node) == nil &&
		!slices.ContainsFunc(p.s.Left, func(l membership.Left) bool { return l.Node == m.Node })
}

// news is m as it is told.
func (p *planner) news(m membership.Seen) membership.Seen {
	if !p.m.Sign.IsZero() {
		m.After = p.now.Sub(p.m.Sign)
	}
	return m
}

func (p *planner) whoWasLost(lost []membership.Seen) string {
	var parts []string
	for _, m := range lost {
		if m.Reason == "left" {
			parts = append(parts, m.Node+" left")
		} else {
			parts = append(parts, fmt.Sprintf("%s was lost (%s)", m.Node, m.Why))
		}
	}
	return join(parts)
}

// broke are the members whose end explains the failure of another worker: they are lost, or left without waiting
// for the others to save.
func (p *planner) broke() []membership.Seen {
	var broke []membership.Seen
	for _, m := range p.lost() {
		switch f, x := p.s.Failure, p.s.Exits[m.Node]; {
		case slices.Contains(p.w.Told, m.Incarnation):
			// It had its effect on the books already.
		case m.Reason != "left":
			broke = append(broke, m)
		case p.w.Rank(m.Ref) < 0, x.Incarnation == m.Incarnation && x.Zero():
			// It was no member, or through.
		case f != nil && f.Node == m.Node && f.Incarnation == m.Incarnation:
			// Its own worker failed before it left.
		case p.w.Phase == Waiting && !p.now.Before(p.m.Failed.Add(p.t.Verdict)):
			// The others were stopped already.
		default:
			broke = append(broke, m)
		}
	}
	return broke
}

// lose counts those who are told lost, in the books that go with their events: nobody is counted twice, or told and not counted.
func (l Ledger) lose(told []membership.Seen) Ledger {
	l.Lost += len(told)
	return l
}
