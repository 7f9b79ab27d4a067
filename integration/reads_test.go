package integration

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// role is what a node is in a world that was just agreed on.
type role string

const (
	decides role = "decides" // the first three ranks
	member  role = "member"
	spare   role = "spare"
)

// storeUse is what one node asked of the store in one phase, for each generation of it.
type storeUse struct {
	requests      int64
	sent          int64
	received      int64 // without the lists of members, leavers and endpoints, which each node reads once
	receivedWhole int64
}

// An ordinary member, or a spare, of a large job asks the store for as much as one of a small job,
// in each phase: it does not read what there is of each node. What grows is the list of members
// alone, with at most 64 bytes for each of them; of a world with few changes, the list of endpoints,
// with 16.
func TestOrdinaryNodesReadTheirOwn(t *testing.T) {
	small, large := 120, 360
	if soak(t) > 1 {
		small, large = 300, 1000
	}
	few, many := useOfStore(t, small), useOfStore(t, large)
	for phase, roles := range many {
		for _, r := range []role{decides, member, spare} {
			a, b := few[phase][r], roles[r]
			t.Logf("%-10s %-8s %3d nodes: %3d requests, %6d bytes sent, %8d received (%8d with the list); "+
				"%4d nodes: %3d, %6d, %8d (%8d)", phase, r, small, a.requests, a.sent, a.received, a.receivedWhole,
				large, b.requests, b.sent, b.received, b.receivedWhole)
			if r == decides {
				continue
			}
			perRequest := a.received / max(1, a.requests) // of a slow machine there are more requests in each phase
			if b.requests > 2*a.requests+10 || b.sent > a.sent+a.sent/2+1000 ||
				b.received > max(a.received, perRequest*b.requests)*3/2+3000 {
				t.Errorf("%s: a %s of %d nodes asks the store for more than one of %d", phase, r, large, small)
			}
		}
	}
}

// rackSize is how many neighbours are lost at once.
const rackSize = 10

// useOfStore is what the median node of each role asked of the store in each phase of a job of n
// nodes.
func useOfStore(t *testing.T, n int) map[string]map[role]storeUse {
	h := newFleetInMemory(t, n)
	h.job.Limits = rendezvous.Limits{Min: 1, Max: n}
	h.job.Rules.LastCall = rendezvous.Seconds(limit)
	use := map[string]map[role]storeUse{}
	phase := func(name string, f func()) {
		before, g := h.counts(), h.newest()
		f()
		use[name] = h.medians(before, int64(h.newest()-g))
	}
	phase("start", func() {
		for i := range n {
			h.start(fmt.Sprintf("node%04d", i))
		}
		h.settles(0, n)
	})
	phase("loss", func() {
		g := h.newest()
		h.kill(h.member(n / 2))
		h.settles(g, n-1)
	})
	phase("many lost", func() {
		g := h.newest()
		h.kill(h.members(n/4, rackSize)...)
		h.settles(g, n-1-rackSize)
	})
	phase("halved", func() {
		g := h.newest()
		h.scale(n / 2)
		h.settles(g, n/2)
		h.registered(n - 1 - rackSize)
	})
	return use
}

// newFleetInMemory is a fleet on a store in memory that counts for each agent.
func newFleetInMemory(t *testing.T, n int) *fleet {
	c := memory.New()
	h := newFleetWith(t, n, c.Client("look"))
	h.cluster = c
	return h
}

// scale asks for np nodes.
func (h *fleet) scale(np int) {
	h.t.Helper()
	s, err := rendezvous.Read(h.t.Context(), h.look, h.job.Name)
	if err != nil {
		h.t.Fatal(err)
	}
	w := s.Wish
	w.NP, w.By = np, "scale"
	if _, err := (txn.Requests{Store: h.look, Job: h.job.Name}).SetWish(h.t.Context(), &s, w); err != nil {
		h.t.Fatal(err)
	}
}

// registered waits until n nodes are registered, and each of them in no older world than it left.
func (h *fleet) registered(n int) {
	h.t.Helper()
	until(h.t, "those that left stand by", func() error {
		nodes := h.job.Name.Nodes()
		r, err := h.look.Get(h.t.Context(), nodes, store.End(nodes))
		if err == nil && len(r.Entries) != n {
			err = fmt.Errorf("%d of %d nodes are registered", len(r.Entries), n)
		}
		if err != nil {
			return err
		}
		left := h.job.Name.AllLeft()
		if r, err = h.look.Get(h.t.Context(), left, store.End(left)); err == nil && len(r.Entries) < n-h.n/2 {
			err = errors.New("some did not leave yet")
		}
		return err
	})
}

// counts are the counters of each agent that lives.
func (h *fleet) counts() map[string]storeUse {
	counts := map[string]storeUse{}
	for _, b := range h.agents() {
		if !b.isDead() {
			counts[b.name] = storeUse{requests: b.tally.Requests(), sent: b.tally.Sent.Load(),
				receivedWhole: b.tally.Received.Load()}
		}
	}
	return counts
}

// medians are what the median node of each role has asked for since before, in so many generations.
func (h *fleet) medians(before map[string]storeUse, generations int64) map[role]storeUse {
	s, err := rendezvous.Read(h.t.Context(), h.look, h.job.Name)
	if err != nil {
		h.t.Fatal(err)
	}
	list := int64(16 * len(s.World.Members)) // the endpoints of the workers
	if s.World.Base == "" {                  // else its changes tell the members to those that know the world before
		list += int64(48*len(s.World.Members) + 64*len(s.World.Leavers))
	}
	rank := map[string]int{}
	for i, m := range s.World.Members {
		rank[m.Node] = i
	}
	all := map[role][]storeUse{}
	for name, now := range h.counts() {
		was := before[name]
		u := storeUse{requests: (now.requests - was.requests) / generations, sent: (now.sent - was.sent) / generations,
			receivedWhole: (now.receivedWhole - was.receivedWhole) / generations}
		u.received = max(0, u.receivedWhole-list)
		r := member
		if at, ok := rank[name]; !ok {
			r = spare
		} else if at < 3 {
			r = decides
		}
		all[r] = append(all[r], u)
	}
	medians := map[role]storeUse{}
	for r, uses := range all {
		middle := func(of func(storeUse) int64) int64 {
			var v []int64
			for _, u := range uses {
				v = append(v, of(u))
			}
			slices.Sort(v)
			return v[len(v)/2]
		}
		medians[r] = storeUse{requests: middle(func(u storeUse) int64 { return u.requests }),
			sent:          middle(func(u storeUse) int64 { return u.sent }),
			received:      middle(func(u storeUse) int64 { return u.received }),
			receivedWhole: middle(func(u storeUse) int64 { return u.receivedWhole })}
	}
	return medians
}
