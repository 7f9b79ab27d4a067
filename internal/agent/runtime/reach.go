package runtime

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/detection"
	"github.com/elasticd/elastic/internal/agent/notice"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// unreached is why others would find this node silent. It asks some of them to dial it. As for the
// verdict on a member, one dial that was refused or met a stranger, or two that met silence, are
// enough; after one that reached this node there is no error. A node that gets no answer to that
// question from any node is not reached, either.
//
// Only a node that comes back asks. It was dropped: if that was because its address leads nowhere, or
// because it is cut off, every world that it joins would find it silent and drop it again.
func (l *loop) unreached(ctx context.Context, s *rendezvous.Snapshot) error {
	if l.joining.uid == "" {
		return nil
	}
	here := l.Peers.Here()
	var by, mute []string
	need := 2
	others := slices.DeleteFunc(slices.Clone(s.Nodes),
		func(n membership.Node) bool { return n.Node == l.joining.node })
	all := len(others)
	if all > detection.MaxWitnesses {
		// Not the same ones each time: they may be dead, and registered until their leases end.
		from := l.joining.unanswered % all
		others = slices.Concat(others[from:], others[:from])[:detection.MaxWitnesses]
	}
	for _, n := range others {
		kind, err := l.Peers.Reach(ctx, n.Ref, here)
		switch {
		case err != nil:
			mute = append(mute, n.Node)
			continue
		case kind == membership.Same:
			return nil
		case kind == membership.Refused || kind == membership.Stranger:
			need = 1
		}
		by = append(by, n.Node)
	}
	if len(mute) < len(others) {
		l.joining.unanswered = 0
	}
	switch {
	case len(by) >= need:
		names := strings.Join(by, ", ")
		l.warn(notice.OutOfReach(names, here) + "; not joining before they do")
		return fmt.Errorf("%s cannot reach this node at %s", names, here)
	case len(mute) > 0 && len(mute) == len(others):
		names := strings.Join(mute, ", ")
		// All of them, and some again: a node that has just joined still answers as its incarnation
		// before.
		if l.joining.unanswered += len(mute); l.joining.unanswered > all {
			l.warn("this node is cut off: " + names + " did not answer it; not joining before one does")
		}
		return fmt.Errorf("no answer from %s", names)
	}
	return nil
}

// warn says once why this node stays out.
func (l *loop) warn(text string) {
	if !l.joining.warned {
		l.joining.warned = true
		l.Say(action.Line{Text: text})
	}
}
