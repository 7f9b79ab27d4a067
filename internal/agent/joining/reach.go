package joining

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/notice"
	"github.com/elasticd/elastic/pkg/membership"
)

// unreached is why others would find this node silent. It asks some of them to dial it. As for the
// verdict on a member, one dial that was refused or met a stranger, or two that met silence, are
// enough; after one that reached this node there is no error. A node that gets no answer to that
// question from any node is not reached, either.
//
// Only a node that comes back asks. It was dropped: if that was because its address leads nowhere,
// or because it is cut off, every world that it joins would find it silent and drop it again.
func (j *Joiner) unreached(ctx context.Context) error {
	if !j.state.joined {
		return nil
	}
	others, err := j.witnesses(ctx)
	if err != nil {
		return err
	}
	here := j.Peers.Here()
	var by, mute []string
	need := 2
	for _, n := range others {
		kind, err := j.Peers.Reach(ctx, n.Ref, here)
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
	switch {
	case len(by) >= need:
		j.state.firstMute = ""
		j.warn(notice.OutOfReach(strings.Join(by, ", "), here) + "; not joining before they do")
		return hindrance{fmt.Errorf("%s cannot reach this node at %s", strings.Join(by, ", "), here)}
	case len(by) > 0 || len(mute) == 0:
		j.state.firstMute = ""
		return nil
	}
	// All of them, and some again: a node that has just joined still answers as its incarnation
	// before.
	if slices.Contains(mute, j.state.firstMute) {
		j.warn("this node is cut off: " + strings.Join(mute, ", ") +
			" did not answer it; not joining before one does")
	} else if j.state.firstMute == "" {
		j.state.firstMute = mute[0]
	}
	return hindrance{fmt.Errorf("no answer from %s", strings.Join(mute, ", "))}
}

// warn says once why this node stays out.
func (j *Joiner) warn(text string) {
	if !j.state.warned {
		j.state.warned = true
		j.Say(action.Line{Text: text})
	}
}

// placeTaken is why this node cannot have the rank that it was given: another one has it. That one
// may be this node's earlier life under another name, and goes with its lease.
func (j *Joiner) placeTaken(nodes []membership.Node) error {
	for _, n := range nodes {
		if j.Place > 0 && n.Place == j.Place && n.Node != j.state.node && n.Node != j.Node {
			return fmt.Errorf("node %s has rank %d", n.Node, j.Place-1)
		}
	}
	return nil
}
