package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/agent"
	"github.com/elasticd/elastic/internal/etcd"
	"github.com/elasticd/elastic/internal/etcdmem"
	"github.com/elasticd/elastic/internal/etcdtest"
	"github.com/elasticd/elastic/internal/keys"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// What one generation may cost for each of its nodes. Measured, of 300: the
// first takes a registration with its event, a word that it is ready, and its
// share of the plan; the next one only the word.
const (
	writesToForm   = 5
	writesToChange = 3
	// A node reads the list of members and nothing else of the others: 64 bytes of each.
	bytesOfOne = 64
)

// Hundreds of agents in one process: the real agent, its real requests and a
// real etcd. What is played is the workers, and the network between agents.
func TestHerd(t *testing.T) {
	n := 300
	if soak(t) > 1 {
		n = 1000
	}
	server := etcdtest.Start(t)
	h := &herd{t: t, name: "herd", limits: rendezvous.Limits{Min: n, Max: n, Exact: true}, agents: map[string]*beast{}}
	for range 8 { // one connection for each agent would measure connections
		s, err := etcd.Open(t.Context(), etcd.Config{Endpoints: server.Endpoints()})
		if err != nil {
			t.Fatal(err)
		}
		h.stores = append(h.stores, etcdmem.Count(s, &h.tally))
	}
	t.Cleanup(h.end)

	began := time.Now()
	for i := range n {
		h.start(fmt.Sprintf("node%04d", i))
	}
	w := h.running(1, n)
	h.cost("to form generation 1", began, etcdmem.Tally{}, n, writesToForm)
	if w.Members[0].Node == "" || len(w.Members) != n {
		t.Fatalf("the world has %d members", len(w.Members))
	}

	// One is lost, and a spare takes its place.
	h.start("spare")
	h.until("the spare is there", func(s *rendezvous.Snapshot) error {
		if s.Node("spare") == nil {
			return fmt.Errorf("%d nodes", len(s.Nodes))
		}
		return nil
	})
	before, lost := h.count(), w.Members[n/2].Node
	began = time.Now()
	h.kill(lost)
	w = h.running(2, n)
	h.cost("to form generation 2, after a loss", began, before, n, writesToChange)
	if got := w.Members[n/2].Node; got != "spare" {
		t.Errorf("rank %d was %s and is %s", n/2, lost, got)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.agents {
		if want := 2; a.name == "spare" || a.name == lost {
			want = 1
			if a.starts != want {
				t.Errorf("%s started its workers %d times, want %d", a.name, a.starts, want)
			}
		} else if a.starts != want {
			t.Errorf("%s started its workers %d times, want %d", a.name, a.starts, want)
		}
	}
}

// herd is the agents, and the network between them.
type herd struct {
	t      *testing.T
	name   keys.Job
	limits rendezvous.Limits
	stores []keys.Store
	tally  etcdmem.Tally

	mu     sync.Mutex // guards agents and all that is in them
	agents map[string]*beast
	all    sync.WaitGroup
}

// beast is one agent.
type beast struct {
	h      *herd
	name   string
	store  keys.Store
	cancel context.CancelFunc

	hello   agent.Hello
	watched []membership.Ref
	signals chan agent.Signal
	starts  int
	dead    bool
}

func (h *herd) address(name string) string { return name + ":1" }

func (h *herd) start(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	b := &beast{h: h, name: name, cancel: cancel, signals: make(chan agent.Signal, 64)}
	b.store = severed{h.stores[len(h.agents)%len(h.stores)], b}
	h.agents[name] = b
	c := agent.Config{
		Job: rendezvous.Job{Name: h.name, Limits: h.limits, Slots: 1,
			Rules: rendezvous.Rules{MaxRestarts: 3, LastCall: rendezvous.Seconds(3 * time.Second), Grace: rendezvous.Seconds(time.Second), Replicas: 2, Keep: 3, Load: "all"}},
		Given: map[string]bool{"np": true}, Node: name, NodeGiven: true, Address: h.address(name), Host: name, Machine: name,
		LeaseTTL: 10 * time.Second, StoreCutLimit: time.Minute, Times: rendezvous.DefaultTimes, LogDir: "log",
	}
	h.all.Go(func() {
		agent.Run(ctx, c, agent.Deps{Store: b.store, Workers: b, Peers: b, Disk: (*disk)(b), Saves: none{}, Say: func(agent.Line) {}}, make(chan os.Signal))
	})
}

// kill ends an agent as SIGKILL does: nothing that it does reaches anybody.
func (h *herd) kill(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	dead := h.agents[name]
	dead.dead = true
	dead.cancel()
	for _, b := range h.agents {
		b.notice()
	}
}

func (h *herd) end() {
	h.mu.Lock()
	for _, b := range h.agents {
		b.dead = true
		b.cancel()
	}
	h.mu.Unlock()
	h.all.Wait()
}

func (h *herd) until(what string, is func(*rendezvous.Snapshot) error) {
	h.t.Helper()
	within(h.t, 2*time.Minute, what, func() error {
		s, err := rendezvous.Read(h.t.Context(), h.stores[0], h.name)
		if err == nil && s.Job == nil {
			err = errors.New("there is no job")
		}
		if err != nil {
			return err
		}
		return is(&s)
	})
}

// running waits until generation g runs with n nodes, all of which have started their workers.
func (h *herd) running(g keys.Generation, n int) (w *rendezvous.World) {
	h.t.Helper()
	within(h.t, 2*time.Minute, fmt.Sprintf("generation %d runs with %d nodes", g, n), func() error {
		// The world alone, and not through the tally: to look costs nothing.
		r, err := h.stores[0].Get(h.t.Context(), h.name.World(), "")
		if err != nil || r.One() == nil {
			return fmt.Errorf("no world: %w", err)
		}
		if w, err = rendezvous.DecodeWorld(r.One()); err != nil {
			return err
		}
		started := 0
		h.mu.Lock()
		for _, b := range h.agents {
			started += b.starts
		}
		h.mu.Unlock()
		if w.Generation != g || w.Phase != rendezvous.Running || w.Count != n {
			return fmt.Errorf("generation %d of %d nodes is %s; %d starts", w.Generation, w.Count, w.Phase, started)
		}
		return nil
	})
	h.until("the world is whole", func(s *rendezvous.Snapshot) error {
		w = s.World
		return nil
	})
	return w
}
