package joining

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/elasticd/elastic/internal/agent/message"

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
	asked := make([]membership.Ref, len(others))
	for i, n := range others {
		asked[i] = n.Ref
	}
	r := ask(ctx, j.Peers, asked)
	if err := r.silent(); err != nil {
		j.state.firstMute = ""
		j.warn(err.Error() + "; not joining before they do")
		return hindrance{err}
	}
	if r.reached || len(r.by) > 0 || len(r.mute) == 0 {
		j.state.firstMute = ""
		return nil
	}
	// No node answered, and some did not answer twice. Once is not enough: a node that has just
	// joined still answers as its earlier incarnation.
	if slices.Contains(r.mute, j.state.firstMute) {
		j.warn("this node is cut off: no answer from " + strings.Join(r.mute, ", ") +
			"; it joins when one of them answers")
	} else if j.state.firstMute == "" {
		j.state.firstMute = r.mute[0]
	}
	return hindrance{fmt.Errorf("no answer from %s", strings.Join(r.mute, ", "))}
}

// reach is what nodes found that were asked to dial this one.
type reach struct {
	here     string // where they dialled
	reached  bool
	by, mute []string // nodes that did not reach it, and nodes that did not answer the question
	refused  bool     // one dial was refused, or answered by a stranger
}

// ask has nodes dial this one, until one reaches it.
func ask(ctx context.Context, p Peers, nodes []membership.Ref) reach {
	r := reach{here: p.Here()}
	for _, n := range nodes {
		kind, err := p.Reach(ctx, n, r.here)
		switch {
		case err != nil:
			r.mute = append(r.mute, n.Node)
			continue
		case kind == membership.Same:
			r.reached = true
			return r
		case kind == membership.Refused || kind == membership.Stranger:
			r.refused = true
		}
		r.by = append(r.by, n.Node)
	}
	return r
}

// silent returns an error if the answers are enough to find this node silent.
func (r reach) silent() error {
	if r.reached || len(r.by) == 0 || len(r.by) == 1 && !r.refused {
		return nil
	}
	return errors.New(message.OutOfReach(strings.Join(r.by, ", "), r.here))
}

// Unreached returns an error if the members of a World that it asks do not reach this node. They are
// the first two.
func Unreached(ctx context.Context, p Peers, members []membership.Ref) error {
	return ask(ctx, p, members[:min(len(members), 2)]).silent()
}

// warn tells the user once why this node stays out.
func (j *Joiner) warn(text string) {
	if !j.state.warned {
		j.state.warned = true
		j.Say(message.Line{Text: text})
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
