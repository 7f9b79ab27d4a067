package integration

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/elasticd/elastic/internal/agent"
	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// fleetAgent is one agent of a fleet, with its simulated workers, disk and network.
type fleetAgent struct {
	h    *fleet
	name string
	dead chan struct{} // closed when no request of it arrives any more
	quit chan os.Signal
	kill func()

	tally *memory.Tally // its requests to a store in memory

	// guarded by fleet.mu
	hello    message.Hello
	watched  []membership.Ref
	reported map[membership.Incarnation]bool
	signals  chan membership.Signal
	starts   int
	newest   schema.Generation // that it started workers of
	at       time.Time         // when it did
}

func newFleetAgent(h *fleet, name string) *fleetAgent {
	b := &fleetAgent{h: h, name: name, tally: &memory.Tally{}, dead: make(chan struct{}),
		quit:    make(chan os.Signal, 2),
		signals: make(chan membership.Signal, 1<<8), reported: map[membership.Incarnation]bool{}}
	b.kill = sync.OnceFunc(func() { close(b.dead); b.quit <- os.Interrupt; b.quit <- os.Interrupt })
	return b
}

func (b *fleetAgent) isDead() bool {
	select {
	case <-b.dead:
		return true
	default:
		return false
	}
}

func (b *fleetAgent) started(g schema.Generation) bool {
	b.h.mu.Lock()
	defer b.h.mu.Unlock()
	return b.newest == g
}

// times returns how often the agent started workers.
func (b *fleetAgent) times() int {
	b.h.mu.Lock()
	defer b.h.mu.Unlock()
	return b.starts
}

// severed is the store of an agent. It fails after the agent was killed.
type severed struct {
	store.Store
	dead <-chan struct{}
}

var errDead = errors.New("this agent is dead")

func (s severed) err() error {
	select {
	case <-s.dead:
		return errDead
	default:
		return nil
	}
}

func (s severed) Get(ctx context.Context, key, end string) (store.Read, error) {
	if err := s.err(); err != nil {
		return store.Read{}, err
	}
	return s.Store.Get(ctx, key, end)
}

func (s severed) GetRanges(ctx context.Context, ranges ...store.Range) (store.Read, error) {
	if err := s.err(); err != nil {
		return store.Read{}, err
	}
	return s.Store.GetRanges(ctx, ranges...)
}

func (s severed) Txn(ctx context.Context, t store.Txn) (store.TxnResult, error) {
	if err := s.err(); err != nil {
		return store.TxnResult{}, err
	}
	return s.Store.Txn(ctx, t)
}

func (s severed) Renew(ctx context.Context, l store.Lease) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.Store.Renew(ctx, l)
}

func (s severed) TimeToLive(ctx context.Context, l store.Lease) (left, granted time.Duration, err error) {
	if err := s.err(); err != nil {
		return 0, 0, err
	}
	return s.Store.TimeToLive(ctx, l)
}

func (s severed) Revoke(ctx context.Context, l store.Lease) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.Store.Revoke(ctx, l)
}

// network is the simulated network to the other agents. A dead agent refuses connections at once.
type network struct{ *fleetAgent }

func (n network) Knows(context.Context, membership.Ref) (plan.Knowledge, error) {
	return plan.Knowledge{}, errors.ErrUnsupported
}
func (n network) Here() string                        { return n.name + ":1" }
func (n network) Open([]byte, schema.Job, schema.UID) {}
func (n network) Signals() <-chan membership.Signal   { return n.signals }

func (n network) Tell(h message.Hello) {
	n.h.mu.Lock()
	defer n.h.mu.Unlock()
	n.hello = h
}

func (n network) Watch(refs []membership.Ref) {
	n.h.mu.Lock()
	defer n.h.mu.Unlock()
	n.watched = refs
	clear(n.reported) // current failures are reported again
	n.notice()
}

// notice reports which watched nodes are dead. mu is held.
func (n network) notice() {
	if n.isDead() {
		return
	}
	for _, r := range n.watched {
		if a := n.answer(r); a.Kind == membership.Refused && !n.reported[r.Incarnation] {
			n.reported[r.Incarnation] = true
			n.signals <- membership.Signal{Ref: r, Sign: membership.ConnectionClosed, Answer: a}
		}
	}
}

// answer returns the result of a dial. mu is held.
func (n network) answer(to membership.Ref) membership.Answer {
	if x := n.h.living(to.Node); x != nil {
		return membership.Answer{Kind: membership.Same, Incarnation: to.Incarnation,
			Generation: x.hello.Generation}
	}
	return membership.Answer{Kind: membership.Refused}
}

func (n network) Confirm(ctx context.Context, to membership.Ref) membership.Answer {
	return n.Probe(ctx, to)
}

func (n network) Probe(_ context.Context, to membership.Ref) membership.Answer {
	n.h.mu.Lock()
	defer n.h.mu.Unlock()
	return n.answer(to)
}

func (n network) Reach(context.Context, membership.Ref, string) (membership.AnswerKind, error) {
	return membership.Same, nil
}

func (n network) Holds(_ context.Context, watcher, about membership.Ref) bool {
	n.h.mu.Lock()
	defer n.h.mu.Unlock()
	x := n.h.living(watcher.Node)
	return x != nil && slices.ContainsFunc(x.hello.Suspects, about.Same)
}

// living returns the agent of that name, nil if it is dead. mu is held.
func (h *fleet) living(name string) *fleetAgent {
	for _, b := range h.lives[name] {
		if !b.isDead() {
			return b
		}
	}
	return nil
}

// stable simulates the workers of an agent: they run until they are stopped.
type stable struct{ *fleetAgent }

func (s stable) Open(string, rendezvous.Job, []checkpoint.Head) (string, error) { return "log", nil }
func (s stable) Sweep(context.Context) error                                    { return nil }
func (s stable) AdoptJob(rendezvous.Job) error                                  { return nil }

func (s stable) Ports(n int, _ string) ([]int, error) {
	all := make([]int, n)
	for i := range all {
		all[i] = 20000 + i
	}
	return all, nil
}

func (s stable) Start(_ context.Context, st message.Start) (agent.Group, error) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	s.starts++
	s.newest, s.at = st.World.Generation, time.Now()
	g := &idle{generation: s.newest, events: make(chan message.Event), done: make(chan struct{})}
	g.end = sync.OnceFunc(func() { close(g.events); close(g.done) })
	return g, nil
}

// idle simulates workers that do nothing, and cannot stay.
type idle struct {
	generation schema.Generation
	events     chan message.Event
	done       chan struct{}
	end        func()
}

func (g *idle) Hangs() <-chan rendezvous.Failure {
	none := make(chan rendezvous.Failure)
	close(none)
	return none
}

func (g *idle) Events() <-chan message.Event                  { return g.events }
func (g *idle) Generation() schema.Generation                 { return g.generation }
func (g *idle) Pause(context.Context) (*int64, error)         { return nil, errors.ErrUnsupported }
func (g *idle) Continue(context.Context, message.Start) error { return errors.ErrUnsupported }
func (g *idle) Done() <-chan struct{}                         { return g.done }
func (g *idle) Ask(string, time.Duration) error               { g.end(); return nil }
func (g *idle) Stop(context.Context, time.Duration) error     { g.end(); return nil }

// disk stores nothing, because no agent comes back to a machine.
type disk struct{ *fleetAgent }

func (d disk) Lock(string) (func(), error)                       { return func() {}, nil }
func (d disk) HostID() string                                    { return d.name }
func (d disk) LastGeneration(string) (schema.Generation, error)  { return 0, nil }
func (d disk) SetLastGeneration(string, schema.Generation) error { return nil }

func (d disk) Remember(string, *rendezvous.Memory) error             { return nil }
func (d disk) Recall(string, schema.UID) (*rendezvous.Memory, error) { return nil, nil }
func (d disk) MoveAside(context.Context, string, rendezvous.Aside) (*rendezvous.Brought, error) {
	return nil, nil
}

// nothing is saved.
type nothing struct{}

func (nothing) Knows(schema.Generation) plan.Knowledge { return plan.Knowledge{} }
func (nothing) Behind() <-chan struct{}                { return nil }
func (nothing) Gone() <-chan error                     { return nil }

func (nothing) Nodes([]membership.Node, checkpoint.Head)                            {}
func (nothing) Open(rendezvous.World, int)                                          {}
func (nothing) Fits(context.Context, rendezvous.World) error                        { return nil }
func (nothing) Stay(rendezvous.World) error                                         { return nil }
func (nothing) Close(context.Context, schema.Generation) error                      { return nil }
func (nothing) Finish(context.Context, schema.Generation) error                     { return nil }
func (nothing) NotReady(error)                                                      {}
func (nothing) Ready()                                                              {}
func (nothing) CommitLeft(context.Context, rendezvous.World, membership.Node) error { return nil }
func (nothing) HandOver(context.Context)                                            {}
func (nothing) Prepare(context.Context, rendezvous.World) (message.Resume, error) {
	return message.Resume{}, nil
}
