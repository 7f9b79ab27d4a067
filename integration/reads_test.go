package integration

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// role is the role of a node in a new world.
type role string

const (
	decides role = "decides" // the first three ranks
	member  role = "member"
	spare   role = "spare"
)

// storeUse counts the requests of one node to the store in one phase, per generation.
type storeUse struct {
	requests      int64
	sent          int64
	received      int64 // without the lists of members, leavers and endpoints, which each node reads once
	receivedWhole int64
}

// The largest request that etcd accepts by default, in bytes.
const mostBytes = 1_500_000

// proposedWithin is the simulated time from the start of ten thousand nodes to the proposal of
// their first world.
const proposedWithin = 10 * time.Second

// A job starts, loses a node, then several neighbours, and is scaled to half its size, in simulated
// time, on a server that is as fast as a measured one. NODES is the size of the larger of two jobs.
//
// In each phase an ordinary member, or a spare, reads as much from the store in a large job as in a
// small one: it reads no key of every node. Only the list of members grows, by at most 64 bytes per
// member. In a world with few changes only the list of endpoints grows, by 16 bytes per member.
func TestOrdinaryNodesReadTheirOwn(t *testing.T) {
	large := 360
	if n, err := strconv.Atoi(os.Getenv("NODES")); err == nil {
		large = n
	}
	small := max(120, large/10)
	row := min(100, small/10)
	few, many := playJob(t, small, row), playJob(t, large, row)
	each := (many[0].proposed - few[0].proposed) / time.Duration(large-small)
	if each > proposedWithin/10_000 {
		t.Errorf("each node that comes delays the first world by %s", each)
	}
	for i, p := range many {
		for _, r := range []role{decides, member, spare} {
			a, b := few[i].use[r], p.use[r]
			t.Logf("%-10s %-8s %3d nodes: %3d requests, %6d bytes sent, %8d received (%8d with the list); "+
				"%4d nodes: %3d, %6d, %8d (%8d)", p.name, r, small, a.requests, a.sent, a.received,
				a.receivedWhole,
				large, b.requests, b.sent, b.received, b.receivedWhole)
			if r == decides {
				continue
			}
			if b.requests > a.requests+2 || b.sent > a.sent+100 || b.received > a.received*11/10+100 {
				t.Errorf("%s: a %s of %d nodes asks the store for more than one of %d", p.name, r, large, small)
			}
		}
	}
}

// phase is the simulated time of a change of a job, and the requests of each role.
type phase struct {
	name              string
	proposed, started time.Duration // when the world was proposed, and when all its workers had started
	use               map[role]storeUse
}

// playJob runs a job of n nodes, which loses several neighbours.
func playJob(t *testing.T, n, row int) (phases []phase) {
	synctest.Test(t, func(t *testing.T) {
		h := newFleetInMemory(t, n)
		h.job.Limits = rendezvous.Limits{Min: 1, Max: n}
		h.job.Rules.LastCall = rendezvous.Seconds(limit)
		phases = append(phases, h.phase("start", n, func() {
			for i := range n {
				h.start(fmt.Sprintf("node%05d", i))
			}
		}))
		phases = append(phases,
			h.phase("loss", n-1, func() { h.kill(h.member(n / 2)) }),
			h.phase("many lost", n-1-row, func() { h.kill(h.members(n/4, row)...) }),
			h.phase("halved", n/2, func() {
				h.scale(n / 2)
				h.registered(n - 1 - row)
			}))
		bytes, operations := h.server.largest()
		t.Logf("%d nodes: at most %d bytes and %d operations in a transaction", n, bytes, operations)
		if bytes > mostBytes || operations > store.MaxOps {
			t.Errorf("%d nodes: etcd refuses a transaction of %d bytes or %d operations", n, bytes, operations)
		}
	})
	return phases
}

// phase runs f, and measures until n nodes have settled.
func (h *fleet) phase(name string, nodes int, f func()) phase {
	before, g, began := h.counts(), h.newest(), time.Now()
	f()
	h.settles(g, nodes)
	newest := h.newest()
	p := phase{name: name, started: h.lastStart().Sub(began), proposed: h.proposed(newest).Sub(began),
		use: h.medians(before, int64(newest-g))}
	h.t.Logf("%d nodes, %s: proposed after %.2f s, all started after %.2f s; %d generations",
		h.n, name, p.proposed.Seconds(), p.started.Seconds(), newest-g)
	return p
}

// lastStart returns when the last workers were started.
func (h *fleet) lastStart() (last time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range h.all {
		if b.at.After(last) {
			last = b.at
		}
	}
	return last
}

// proposed returns when generation g was proposed.
func (h *fleet) proposed(g schema.Generation) time.Time {
	all, _, err := history.Read(h.t.Context(), h.look, h.job.Name, 0)
	for _, e := range all {
		if e.Kind == history.WorldProposed && e.Generation == g {
			return e.Time
		}
	}
	h.t.Fatalf("generation %d was not proposed: %v", g, err)
	return time.Time{}
}

// newFleetInMemory returns a fleet with a store in memory that counts the requests of each agent.
func newFleetInMemory(t *testing.T, n int) *fleet {
	c := memory.New()
	h := newFleetWith(t, n, c.Client("look"))
	events := h.job.Name.Events() // each gets the revision that it was read at
	c.Share(func(key string) bool { return !strings.HasPrefix(key, events) })
	h.server = &pacedServer{pace: measured, cluster: c, all: h.job.Name.Prefix(),
		rest: time.Duration(n) * 10 * time.Microsecond}
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

// registered waits until n nodes are registered, each of them not in an older world than it left.
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

// counts returns the counters of each agent that is alive.
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

// lists returns the size of the lists of w that each node reads.
func (h *fleet) lists(w *rendezvous.World) int64 {
	list := 0
	if e, err := h.look.Get(h.t.Context(), h.job.Name.Endpoints(w.Proposal), ""); err != nil {
		h.t.Fatal(err)
	} else if e.One() != nil {
		list = len(e.One().Value)
	}
	if w.Base == "" { // else its changes tell the members to those that know the world before
		list += len(rendezvous.EncodeMembers(w.Members)) + len(rendezvous.EncodeMembers(w.Leavers))
	}
	return int64(list)
}

// medians returns the requests of the median node of each role since before, per generation.
func (h *fleet) medians(before map[string]storeUse, generations int64) map[role]storeUse {
	s, err := rendezvous.Read(h.t.Context(), h.look, h.job.Name)
	if err != nil {
		h.t.Fatal(err)
	}
	list := h.lists(s.World)
	rank := map[string]int{}
	for i, m := range s.World.Members {
		rank[m.Node] = i
	}
	all := map[role][]storeUse{}
	for name, now := range h.counts() {
		was := before[name]
		u := storeUse{requests: (now.requests - was.requests) / generations,
			sent:          (now.sent - was.sent) / generations,
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
