package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/agent"
	"github.com/elasticd/elastic/internal/etcd"
	"github.com/elasticd/elastic/internal/etcdmem"
	"github.com/elasticd/elastic/internal/etcdtest"
	"github.com/elasticd/elastic/internal/keys"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/scaling"
)

// What one generation may cost for each of its nodes.
const (
	writesToForm   = 6 // a registration and what it tells; that it is ready; its part of the plan
	writesToChange = 4
	// A node reads the list of members, 64 bytes of each, a world that grows with
	// it, and nothing else of the others. The few who plan read everything.
	bytesOfOne = 400
)

// Hundreds of agents in one process: the real agent, its real requests and a
// real etcd. What is played is the workers, the disks and the network between
// agents.
func TestHerd(t *testing.T) {
	n := 300
	if soak(t) > 1 {
		n = 1000
	}
	h := newHerd(t, n)
	h.measure(fmt.Sprintf("generation 1 of %d nodes", n), writesToForm, func() {
		for i := range n {
			h.start(fmt.Sprintf("node%04d", i))
		}
		h.running(1)
	})
	h.start("spare")
	until(t, "the spare is there", func() error {
		r, err := h.look.Get(t.Context(), h.job.Name.Node("spare"), "")
		if err == nil && r.One() == nil {
			err = errors.New("it is not registered")
		}
		return err
	})
	const rank = 150
	lost := h.world().Members[rank].Node
	h.measure("generation 2, after a loss", writesToChange, func() {
		h.kill(lost)
		h.running(2)
	})
	if got := h.world().Members[rank].Node; got != "spare" {
		t.Errorf("rank %d was %s and is %s", rank, lost, got)
	}
	for _, b := range h.beasts() {
		if want := map[string]int{lost: 1, "spare": 1}[b.name]; b.starts != 2-want {
			t.Errorf("%s started workers %d times", b.name, b.starts)
		}
	}
}

// herd is the agents, and the network between them.
type herd struct {
	t      *testing.T
	n      int
	job    rendezvous.Job
	look   keys.Store // for the test itself: not counted
	stores []keys.Store
	tally  *etcdmem.Tally // a new one for each measurement

	mu  sync.Mutex // guards all, and what the beasts say it does
	all []*beast
	run sync.WaitGroup
}

func newHerd(t *testing.T, n int) *herd {
	server := etcdtest.Start(t)
	open := func() keys.Store {
		s, err := etcd.Open(t.Context(), etcd.Config{Endpoints: server.Endpoints()})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	h := &herd{t: t, n: n, look: open(), tally: &etcdmem.Tally{}}
	h.job = rendezvous.Job{Name: "herd", Limits: rendezvous.Limits{Min: n, Max: n, Exact: true}, Slots: 1, Base: scaling.Base{Nodes: n, Slots: 1},
		Rules: rendezvous.Rules{MaxRestarts: 3, LastCall: rendezvous.Seconds(3 * time.Second), Grace: rendezvous.Seconds(time.Second), Replicas: 2, Keep: 3, Load: "all"}}
	for range 8 { // a connection for each agent would measure connections
		h.stores = append(h.stores, etcdmem.Count(open(), h.tally))
	}
	t.Cleanup(func() {
		for _, b := range h.beasts() {
			h.kill(b.name)
		}
		h.run.Wait()
	})
	return h
}

func (h *herd) beasts() []*beast {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

// start starts an agent on a machine of its own.
func (h *herd) start(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := newBeast(h, name)
	store := severed{h.stores[len(h.all)%len(h.stores)], b.dead}
	h.all = append(h.all, b)
	c := agent.Config{Job: h.job, Given: map[string]bool{"np": true}, Node: name, NodeGiven: true,
		Address: name + ":1", Host: name, Machine: name, LeaseTTL: 10 * time.Second, StoreCutLimit: time.Minute,
		Times: rendezvous.DefaultTimes, LogDir: "log"}
	d := agent.Deps{Store: store, Workers: stable{b}, Peers: network{b}, Disk: disk{b}, Saves: nothing{}, Say: func(agent.Line) {}}
	h.run.Go(func() { agent.Run(context.Background(), c, d, b.quit) })
}

// kill ends an agent as SIGKILL does: nothing that it does reaches anybody.
func (h *herd) kill(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range h.all {
		if b.name == name {
			b.kill()
		}
	}
	for _, b := range h.all {
		network{b}.notice()
	}
}

func (h *herd) world() *rendezvous.World {
	h.t.Helper()
	s, err := rendezvous.Read(h.t.Context(), h.look, h.job.Name)
	if err != nil || s.World == nil || len(s.World.Members) != h.n {
		h.t.Fatalf("read the world: %v, %v", s.World, err)
	}
	return s.World
}

// running waits until every member of generation g has started its workers.
func (h *herd) running(g keys.Generation) {
	h.t.Helper()
	within(h.t, 2*time.Minute, fmt.Sprintf("generation %d runs", g), func() error {
		started := 0
		for _, b := range h.beasts() {
			if b.started(g) {
				started++
			}
		}
		if started != h.n {
			return fmt.Errorf("%d of %d nodes have started it", started, h.n)
		}
		return nil
	})
}

// measure holds what f costs the store to what n nodes may.
func (h *herd) measure(what string, writes int64, f func()) {
	h.t.Helper()
	began := time.Now()
	w, s, r, q := h.tally.Writes.Load(), h.tally.Sent.Load(), h.tally.Received.Load(), h.tally.Requests()-h.tally.Renews.Load()
	f()
	took, n := time.Since(began), int64(h.n)
	w, s, r, q = h.tally.Writes.Load()-w, h.tally.Sent.Load()-s, h.tally.Received.Load()-r, h.tally.Requests()-h.tally.Renews.Load()-q
	h.t.Logf("%s in %s: of each node %.1f writes, %.1f requests without renewals, %.1f kB sent, %.1f kB received",
		what, took.Round(time.Millisecond), float64(w)/float64(n), float64(q)/float64(n), float64(s)/float64(n)/1e3, float64(r)/float64(n)/1e3)
	if w > writes*n {
		h.t.Errorf("%s: %d writes, more than %d of each of %d nodes", what, w, writes, n)
	}
	if r > bytesOfOne*n*n {
		h.t.Errorf("%s: %d bytes read, more than %d of each node by each", what, r, bytesOfOne)
	}
}
