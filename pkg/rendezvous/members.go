package rendezvous

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// fill reads the members and leavers from plan/ where the World record leaves them out.
func (w *World) fill(job schema.Job, entries []store.Entry) error {
	if w.Chunks == 0 {
		return nil
	}
	parts := make([]*store.Entry, w.Chunks)
	for k := range parts {
		key := job.Plan(w.Proposal, k)
		at := slices.IndexFunc(entries, func(e store.Entry) bool { return e.Key == key })
		if at < 0 {
			return fmt.Errorf("world %d: part %d of its members is missing", w.Generation, k)
		}
		parts[k] = &entries[at]
	}
	all, err := listOf(parts)
	if err != nil {
		return err
	}
	if len(all) != w.Count+w.Leaving {
		return fmt.Errorf("world %d: %d of its %d members and leavers are there",
			w.Generation, len(all), w.Count+w.Leaving)
	}
	w.Members, w.Leavers = all[:w.Count:w.Count], all[w.Count:]
	return nil
}

// listOf returns the list that these parts hold. Parts are written once, so the Memo of the first
// part keeps the whole list for all readers that share it.
func listOf(parts []*store.Entry) (all []membership.Ref, err error) {
	memo := parts[0].Memo
	if memo != nil {
		if known, ok := memo.Value().([]membership.Ref); ok {
			return known, nil
		}
	}
	for _, e := range parts {
		if all, err = parseMembers(all, e); err != nil {
			return nil, err
		}
	}
	if memo != nil {
		memo.Keep(all)
	}
	return all, nil
}

// Change is a rank that has another node than in the World before.
type Change struct {
	Rank   int            `json:"rank"`
	Member membership.Ref `json:"member"`
}

// mostChanges bounds the size of the World record, because each phase sends it to every node.
const mostChanges = 100

// NoteChanges records in w, whose members lie outside its record, how they differ from the members
// of before. It records nothing if there are too many differences.
func (w *World) NoteChanges(before *World) {
	w.Base, w.Changes = "", nil
	if before == nil || before.Chunks == 0 || w.Chunks == 0 || len(w.Leavers) > 0 {
		return
	}
	var changes []Change
	for rank, m := range w.Members {
		if rank < len(before.Members) && before.Members[rank] == m {
			continue
		}
		if changes = append(changes, Change{rank, m}); len(changes) > mostChanges {
			return
		}
	}
	w.Base, w.Changes = before.Proposal, changes
}

// MembersFrom returns the members of w, given the members of its Base; nil if base does not fit.
func (w *World) MembersFrom(base []membership.Ref) []membership.Ref {
	members := make([]membership.Ref, w.Count)
	copy(members, base)
	for _, c := range w.Changes {
		if c.Rank < 0 || c.Rank >= w.Count {
			return nil
		}
		members[c.Rank] = c.Member
	}
	if slices.ContainsFunc(members, func(r membership.Ref) bool { return r.Incarnation == "" }) {
		return nil
	}
	return members
}

// ReadMembers reads the members and leavers of w that lie outside its record.
func ReadMembers(ctx context.Context, st store.Store, job schema.Job, w *World) error {
	if w.Chunks == 0 || len(w.Members) > 0 {
		return nil
	}
	prefix := job.Plans(w.Proposal)
	r, err := st.Get(ctx, prefix, store.End(prefix))
	if err != nil {
		return fmt.Errorf("read members of generation %d: %w", w.Generation, err)
	}
	return w.fill(job, r.Entries)
}

// EncodeMembers writes refs as a part of plan/, one line for each. Every node reads the list once a
// generation, and JSON would take five times as long. The format is that of the World record that
// names the list.
func EncodeMembers(refs []membership.Ref) []byte {
	var b strings.Builder
	for _, r := range refs {
		fmt.Fprintf(&b, "%s %s %s", r.Node, r.Incarnation, r.Address)
		if r.Role != "" {
			b.WriteString(" " + r.Role)
		}
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

// parseMembers appends the members of one part to those of the parts before it.
func parseMembers(to []membership.Ref, e *store.Entry) ([]membership.Ref, error) {
	for line := range strings.Lines(string(e.Value)) {
		node, rest, _ := strings.Cut(line, " ")
		incarnation, rest, ok := strings.Cut(rest, " ")
		rest, whole := strings.CutSuffix(rest, "\n")
		address, role, _ := strings.Cut(rest, " ")
		if !ok || !whole {
			return nil, fmt.Errorf("%s: %w: %.80q is no member", e.Key, schema.ErrBadRecord, line)
		}
		r := membership.Ref{Node: node, Incarnation: membership.Incarnation(incarnation),
			Address: address, Role: role}
		if err := r.ValidateMember(); err != nil {
			return nil, fmt.Errorf("%s: %w: %w", e.Key, schema.ErrBadRecord, err)
		}
		to = append(to, r)
	}
	return to, nil
}

// ParseEndpoints reads the endpoints of the workers of a world: a line for each.
func ParseEndpoints(e *store.Entry) []string { return strings.Split(string(e.Value), "\n") }
