package follow

import (
	"context"
	"sync"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// MemberCache remembers the members and leavers of one large world for an agent. They never change
// within a proposal: each node reads them once, not with every phase. A nil MemberCache remembers
// nothing.
type MemberCache struct {
	mu       sync.Mutex // the follower and reads share it
	proposal string
	members  []membership.Ref
	leavers  []membership.Ref

	started   string   // a proposal that was read when it ran
	endpoints []string // of its workers; nil: there is no list
}

// fill puts the members into w, whose record leaves them out.
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

// asked is the proposal of the large world that was read last; "": there was none.
func (m *MemberCache) asked() string {
	if m == nil {
		return ""
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.proposal
}

// keepEndpoints keeps the endpoints of a world that runs: they were written with its phase, so that a
// read which shows that it runs shows them as well.
func (m *MemberCache) keepEndpoints(proposal string, endpoints []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.started, m.endpoints = proposal, endpoints
}

// Endpoints are those of the workers of a world, if it was read when it ran.
func (m *MemberCache) Endpoints(proposal string) (endpoints []string, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.endpoints, proposal != "" && m.started == proposal
}
