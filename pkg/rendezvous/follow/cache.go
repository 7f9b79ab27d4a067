package follow

import (
	"context"
	"sync"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// MemberCache keeps the members and leavers of one large World for an agent. They never change
// within a proposal, so each node reads them once and not with every phase. A nil MemberCache keeps
// nothing.
type MemberCache struct {
	mu       sync.Mutex // the follower and single reads share it
	proposal string
	members  []membership.Ref
	leavers  []membership.Ref

	started   string   // the proposal of a World that was running when it was read
	endpoints []string // of its workers; nil: there is no list
}

// fill sets the members of w, whose record leaves them out.
func (m *MemberCache) fill(ctx context.Context, st store.Store, job schema.Job, w *rendezvous.World) error {
	if m == nil || w.Chunks == 0 {
		return rendezvous.ReadMembers(ctx, st, job, w)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proposal != "" && m.proposal == w.Base {
		if members := w.MembersFrom(m.members); members != nil {
			m.proposal, m.members, m.leavers = w.Proposal, members, nil
		}
	}
	if m.proposal != w.Proposal {
		if err := rendezvous.ReadMembers(ctx, st, job, w); err != nil {
			return err
		}
		m.proposal, m.members, m.leavers = w.Proposal, w.Members, w.Leavers
	}
	w.Members, w.Leavers = m.members, m.leavers
	return nil
}

// asked returns the proposal of the large World that was read last; "": none.
func (m *MemberCache) asked() string {
	if m == nil {
		return ""
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.proposal
}

// keepEndpoints stores the endpoints of a running World. They are written in the transaction that
// sets the phase, so a read that shows the phase shows them too.
func (m *MemberCache) keepEndpoints(proposal string, endpoints []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.started, m.endpoints = proposal, endpoints
}

// Endpoints returns the endpoints of the workers of a World, if it was running when it was read.
func (m *MemberCache) Endpoints(proposal string) (endpoints []string, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.endpoints, proposal != "" && m.started == proposal
}
