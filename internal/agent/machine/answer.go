package machine

import (
	"slices"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/pkg/membership"
)

// AnswerSuspicions answers in the store each suspicion that this node is silent. That distinguishes
// a cut between two nodes from the end of one (docs/PROTOCOL.md, section 4).
func (d *Detection) AnswerSuspicions(f *Sight, out *message.Outbox) {
	if !f.Registered {
		return
	}
	for _, s := range f.Snapshot.Suspects {
		if f.findsSilent(s) && !s.Answered {
			out.Request(message.KindAnswerSuspicion, message.AnswerSuspicion{Suspicion: s, Me: f.Self})
		}
	}
}

// Unreached reports whether other nodes do not reach this node: one finds it silent, or the World
// reports its loss.
func (f *Sight) Unreached() bool {
	return slices.ContainsFunc(f.Snapshot.Suspects, f.findsSilent) ||
		f.World != nil && slices.Contains(f.World.ReportedLost, f.Self.Incarnation)
}

// findsSilent reports whether s says that this node is silent.
func (f *Sight) findsSilent(s membership.Suspicion) bool {
	return s.Node == f.Self.Node && s.Incarnation == f.Self.Incarnation && s.Sign == membership.Silent
}

// AwaitAnswers gives each node that this one finds silent time to answer in the store. It does so
// only if these two are the only registered nodes, because no third one can confirm the silence.
func (d *Detection) AwaitAnswers(f *Sight, out *message.Outbox) {
	snap := f.Snapshot
	if len(snap.Nodes) != 2 || !f.Registered {
		return
	}
	for _, s := range snap.Suspects {
		n := snap.Node(s.Node)
		_, held := d.suspected[s.Incarnation]
		if !held || s.Watcher != f.Self.Incarnation || s.Sign != membership.Silent || s.Answered ||
			n == nil || n.Incarnation != s.Incarnation {
			continue
		}
		x := d.evidence.Unanswered[s.Incarnation]
		if x.Rev == s.Rev && f.Now.Sub(x.At) < d.limits.Fresh {
			continue
		}
		out.RequestAbout(message.KindAwaitAnswer, s.Incarnation,
			message.AwaitAnswer{About: n.Ref, Lease: n.Lease, Suspicion: s})
	}
}
