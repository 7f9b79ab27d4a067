package joining

import (
	"cmp"
	"context"
	"fmt"

	"github.com/elasticd/elastic/internal/agent/machine"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/store"
)

// asksAll reports whether this node must read all registrations before it joins: to find the node
// with its given rank, or to find whether other nodes run its program, which is not the job's.
func (j *Joiner) asksAll(s *rendezvous.Snapshot) bool {
	return j.Place > 0 || s.Job.Origin.Differs(j.Job.Origin.Digest())
}

// registered returns the registration of a node; nil: there is none.
func (j *Joiner) registered(ctx context.Context, node string) (*membership.Node, error) {
	r, err := j.Store.GetRanges(ctx, store.One(j.Job.Name.Node(node)))
	if err != nil {
		return nil, err
	}
	records := membership.Decode(j.Job.Name, r.Entries)
	if err := records.Err(); err != nil {
		return nil, hindrance{err} // the record may be repaired
	}
	if len(records.Nodes) == 0 {
		return nil, nil
	}
	return &records.Nodes[0], nil
}

// replaceOwn deletes the registration of an earlier agent of this node, and returns its
// incarnation.
func (j *Joiner) replaceOwn(ctx context.Context) (membership.Incarnation, error) {
	n, err := j.registered(ctx, j.state.node)
	switch {
	case err != nil || n == nil:
		return "", err
	case n.Host != j.Disk.HostID():
		return "", hindrance{fmt.Errorf("node %s is registered from another host", n.Node)}
	}
	return n.Incarnation, j.registry.TakeOver(ctx, *n)
}

// countNodes counts the registered nodes, up to machine.Few + 1, and how many of them have a lower
// name than node. It returns 0 and 0 if the store does not answer; the node then plans as if it
// were alone.
func (j *Joiner) countNodes(ctx context.Context, node string) (all, before int) {
	first := store.Below(j.Job.Name.Nodes())
	first.Most = machine.Few + 1
	nodes, _ := j.readNodes(ctx, first)
	for _, n := range nodes {
		if n.Node < node {
			before++
		}
	}
	return len(nodes), before
}

// witnesses returns a few other nodes: those after the one that was asked last, by name. It does not
// return the same ones each time, because they may be dead, and registered until their leases end.
func (j *Joiner) witnesses(ctx context.Context) ([]membership.Node, error) {
	state, all := &j.state, store.Below(j.Job.Name.Nodes())
	last := cmp.Or(state.lastAsked, state.node)
	const most = machine.MaxWitnesses + 1
	behind := store.Range{From: j.Job.Name.Node(last) + "\x00", End: all.End, Most: most}
	ahead := store.Range{From: all.From, End: behind.From, Most: most}
	nodes, err := j.readNodes(ctx, behind, ahead)
	if err != nil {
		return nil, err
	}
	var others []membership.Node
	for _, n := range nodes {
		if n.Node != state.node && len(others) < machine.MaxWitnesses {
			others, state.lastAsked = append(others, n), n.Node
		}
	}
	return others, nil
}

// readNodes reads registrations. It leaves out those that cannot be read.
func (j *Joiner) readNodes(ctx context.Context, ranges ...store.Range) ([]membership.Node, error) {
	r, err := j.Store.GetRanges(ctx, ranges...)
	if err != nil {
		return nil, err
	}
	records := membership.Decode(j.Job.Name, r.Entries)
	return records.Nodes, nil
}
