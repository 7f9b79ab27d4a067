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

// unreached returns an error if other nodes would find this node silent. It asks some of them to
// dial it. As with the verdict on a member, one dial that was refused or answered by a stranger, or
// two without an answer, are enough. If one dial reached this node, there is no error. If no node
// answers the question, this node counts as not reached, too.
//
// Only a node that joins again asks. If it was dropped because its address is wrong, or because it
// is cut off, every World that it joins would drop it again.
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
	// No node answered, and some did not answer twice. Once is not enough: a node that has just
	// joined still answers as its earlier incarnation.
	if slices.Contains(mute, j.state.firstMute) {
		j.warn("this node is cut off: no answer from " + strings.Join(mute, ", ") +
			"; it joins when one of them answers")
	} else if j.state.firstMute == "" {
		j.state.firstMute = mute[0]
	}
	return hindrance{fmt.Errorf("no answer from %s", strings.Join(mute, ", "))}
}

// warn tells the user once why this node stays out.
func (j *Joiner) warn(text string) {
	if !j.state.warned {
		j.state.warned = true
		j.Say(action.Line{Text: text})
	}
}

// placeTaken returns an error if another node has the rank that was given to this node. That node
// may be an earlier incarnation of this one under another name, until its lease ends.
func (j *Joiner) placeTaken(nodes []membership.Node) error {
	for _, n := range nodes {
		if j.Place > 0 && n.Place == j.Place && n.Node != j.state.node && n.Node != j.Node {
			return fmt.Errorf("node %s has rank %d", n.Node, j.Place-1)
		}
	}
	return nil
}
