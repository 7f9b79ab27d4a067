package rendezvous

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Roster remembers the members of one large world for an agent. They never change within a
// proposal: each node reads them once, not with every phase. A nil Roster remembers nothing.
type Roster struct {
	mu       sync.Mutex // the follower and reads share it
	proposal string
	members  []membership.Ref
}

// fill puts the members into w, whose record leaves them out.
func (r *Roster) fill(ctx context.Context, st store.Store, job schema.Job, w *World) error {
	if r == nil || w.Chunks == 0 {
		return Members(ctx, st, job, w)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.proposal != w.Proposal {
		if err := Members(ctx, st, job, w); err != nil {
			return err
		}
		r.proposal, r.members = w.Proposal, w.Members
	}
	w.Members = r.members
	return nil
}

// members writes refs as a part of plan/: a line for each. It is read by every node, as often as there are generations,
// and what is written as JSON takes five times as long to read. Its format is that of the world record which names it.
func members(refs []membership.Ref) []byte {
	var b strings.Builder
	for _, r := range refs {
		fmt.Fprintf(&b, "%s %s %s\n", r.Node, r.Incarnation, r.Address)
	}
	return []byte(b.String())
}

// parseMembers reads what members wrote, behind those that came before.
func parseMembers(to []membership.Ref, e *store.Entry) ([]membership.Ref, error) {
	for line := range strings.Lines(string(e.Value)) {
		node, rest, _ := strings.Cut(line, " ")
		incarnation, rest, ok := strings.Cut(rest, " ")
		address, whole := strings.CutSuffix(rest, "\n")
		if !ok || !whole {
			return nil, fmt.Errorf("%s: %q is no member", e.Key, line)
		}
		to = append(to, membership.Ref{Node: node, Incarnation: membership.Incarnation(incarnation), Address: address})
	}
	return to, nil
}
