package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/agent"
	"github.com/elasticd/elastic/internal/agent/joining"
	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/internal/etcdtest"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/scaling"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/etcd"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// budget limits the requests of a generation per node, for any number of nodes.
type budget struct {
	writes  float64 // to the store
	watches float64 // opened
	bytes   float64 // read by a node, of each other node
}

var (
	// To form: a registration, its first report, Ready, and a share of the plan and of the member
	// list. A node that joins reads the job once, and a second time to find out whether it is one
	// of the few planners.
	toForm = budget{writes: 6, watches: 5, bytes: 800}
	// To replace a node: Ready, and the member list.
	toChange = budget{writes: 2, watches: 2, bytes: 150}
)

// Hundreds of agents run in one process, with real requests to a real etcd. The
// workers, the disks and the network between agents are simulated.
func TestFleet(t *testing.T) {
	n := 300
	if soak(t) > 1 {
		n = 1000
	}
	h := newFleet(t, n)
	h.measure(fmt.Sprintf("generation 1 of %d nodes", n), toForm, func() {
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
	h.measure("generation 2, after a loss", toChange, func() {
		h.kill(lost)
		h.running(2)
	})
	if got := h.world().Members[rank].Node; got != "spare" {
		t.Errorf("rank %d was %s and is %s", rank, lost, got)
	}
	for _, b := range h.agents() {
		if want := map[string]int{lost: 1, "spare": 1}[b.name]; b.times() != 2-want {
			t.Errorf("%s started workers %d times", b.name, b.times())
		}
	}
}

// A whole rack is lost. That causes one generation, and not one per pair of neighbours. The leases
// last half a minute, so only the other nodes can find this out in time.
func TestARowOfTheFleetIsLost(t *testing.T) {
	const n, row = 60, 30
	h := newFleet(t, n)
	h.job.Limits = rendezvous.Limits{Min: 1, Max: n}
	h.job.Rules.LastCall = rendezvous.Seconds(time.Minute)
	for i := range n {
		h.start(fmt.Sprintf("node%04d", i))
	}
	h.settles(0, n)
	before := h.newest()
	h.kill(h.members(10, row)...)
	h.settles(before, n-row)
	if after := h.newest(); after > before+2 {
		t.Errorf("%d generations for one row of nodes", after-before)
	}
}

// fleet has the agents, and the network between them.
type fleet struct {
	t      testing.TB
	n      int
	job    rendezvous.Job
	ttl    time.Duration // of the leases
	look   store.Store   // for the test itself: not counted
	stores []store.Store
	tally  *memory.Tally // a new one for each measurement
	// server is the store in memory on which each agent is counted; nil: they share stores.
	server *pacedServer

	mu    sync.Mutex // guards all, lives, and what the agents say it does
	all   []*fleetAgent
	lives map[string][]*fleetAgent // the same, by name
	run   sync.WaitGroup
}

func newFleet(t *testing.T, n int) *fleet { return fleetOn(t, n, etcdtest.Start(t).Endpoints()) }

// fleetOn is a fleet on a server that is there.
func fleetOn(t testing.TB, n int, endpoints []string) *fleet {
	ctx, cancel := context.WithCancel(context.Background()) // the stores are needed longer than t.Context is
	t.Cleanup(cancel)
	open := func() store.Store {
		s, err := etcd.Open(ctx, etcd.Config{Endpoints: endpoints})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	h := newFleetWith(t, n, open())
	for range 8 { // a connection for each agent would measure connections
		h.stores = append(h.stores, memory.Count(open(), h.tally))
	}
	return h
}

// newFleetWith returns a fleet. The test itself reads the store through look.
func newFleetWith(t testing.TB, n int, look store.Store) *fleet {
	h := &fleet{t: t, n: n, ttl: 30 * time.Second, look: look, tally: &memory.Tally{},
		lives: map[string][]*fleetAgent{}}
	h.job = rendezvous.Job{Name: "fleet", Limits: rendezvous.Limits{Min: n, Max: n, Exact: true}, Slots: 1,
		Base: scaling.Base{Nodes: n, Slots: 1},
		Rules: rendezvous.Rules{MaxRestarts: 3, LastCall: rendezvous.Seconds(3 * time.Second),
			Grace: rendezvous.Seconds(time.Second), Replicas: 2, Keep: 3, Load: "all"}}
	t.Cleanup(func() {
		if t.Failed() {
			h.logEvents()
		}
		var names []string
		for _, b := range h.agents() {
			names = append(names, b.name)
		}
		h.kill(names...)
		h.run.Wait()
	})
	return h
}

func (h *fleet) agents() []*fleetAgent {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

// start starts an agent on a machine of its own.
func (h *fleet) start(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := newFleetAgent(h, name)
	store := severed{dead: b.dead}
	if h.server != nil {
		store.Store = memory.Count(h.server.client(name), b.tally)
	} else {
		store.Store = h.stores[len(h.all)%len(h.stores)]
	}
	h.all = append(h.all, b)
	h.lives[name] = append(h.lives[name], b)
	c := agent.Config{Times: plan.DefaultTimeouts, Config: joining.Config{Job: h.job,
		Given: map[string]bool{"np": true}, Node: name, NodeGiven: true, Machine: name, LeaseTTL: h.ttl}}
	d := agent.Deps{Store: store, Workers: stable{b}, Peers: network{b}, Disk: disk{b}, Saves: nothing{},
		Say: func(message.Line) {}}
	h.run.Go(func() { agent.Run(context.Background(), c, d, b.quit) })
}

// kill ends agents at the same time, like SIGKILL. No request of theirs arrives after it.
func (h *fleet) kill(names ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range names {
		for _, b := range h.lives[name] {
			b.kill()
		}
	}
	for _, b := range h.all {
		network{b}.notice()
	}
}

// logEvents logs the events, except those of nodes that joined and left.
func (h *fleet) logEvents() {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	all, _, err := history.Read(ctx, h.look, h.job.Name, 0)
	if err != nil {
		h.t.Logf("== events: %v", err)
	}
	for _, e := range all {
		if e.Kind != history.NodeJoined && e.Kind != history.NodeLeft {
			h.t.Logf("%s g%d %s %s: %s", e.Time.Format("15:04:05.000"), e.Generation, e.Kind, e.Node, e.Text)
		}
	}
}

func (h *fleet) world() *rendezvous.World {
	h.t.Helper()
	s, err := rendezvous.Read(h.t.Context(), h.look, h.job.Name)
	if err != nil || s.World == nil || len(s.World.Members) != h.n {
		h.t.Fatalf("read the world: %v, %v", s.World, err)
	}
	return s.World
}

// running waits until every member of generation g has started its workers.
func (h *fleet) running(g schema.Generation) {
	h.t.Helper()
	within(h.t, 2*time.Minute, fmt.Sprintf("generation %d runs", g), func() error {
		started := 0
		for _, b := range h.agents() {
			if b.started(g) {
				started++
			}
		}
		if started == h.n {
			return nil
		}
		return fmt.Errorf("%d of %d nodes have started it", started, h.n)
	})
}

// measure runs f, and fails the test if its requests exceed the budget of n nodes.
func (h *fleet) measure(what string, most budget, f func()) {
	h.t.Helper()
	counters := []struct {
		name string
		of   *atomic.Int64
	}{{"writes", &h.tally.Writes}, {"transactions", &h.tally.Txns}, {"reads", &h.tally.Gets},
		{"entries read", &h.tally.Entries},
		{"watches", &h.tally.Watches}, {"events", &h.tally.Events}, {"bytes sent", &h.tally.Sent},
		{"bytes received", &h.tally.Received}}
	cost := map[string]float64{}
	for _, c := range counters {
		cost[c.name] = -float64(c.of.Load())
	}
	began := time.Now()
	f()
	took := time.Since(began).Round(time.Millisecond)
	var figures []string
	for _, c := range counters {
		cost[c.name] = (cost[c.name] + float64(c.of.Load())) / float64(h.n)
		figures = append(figures, fmt.Sprintf("%.1f %s", cost[c.name], c.name))
	}
	h.t.Logf("%s in %s: of each node %s", what, took, strings.Join(figures, ", "))
	for _, c := range []struct {
		name        string
		is, allowed float64
	}{{"writes", cost["writes"], most.writes}, {"watches", cost["watches"], most.watches},
		{"bytes read of each other", cost["bytes received"] / float64(h.n), most.bytes}} {
		if c.is > c.allowed {
			h.t.Errorf("%s: %.1f %s, by each node; %.1f are allowed", what, c.is, c.name, c.allowed)
		}
	}
}
