package agent

import (
	"context"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/elasticd/elastic/internal/agent/joining"
	"github.com/elasticd/elastic/internal/agent/machine"
	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/store"
)

// Run takes part in the job until the job ends, this node leaves, or ctx ends. signals are those of
// the user: the first one asks the node to leave, a second one of the same kind to leave without
// waiting.
func Run(ctx context.Context, c Config, d Deps, signals <-chan os.Signal) message.Result {
	return newLoop(c, d).run(ctx, signals)
}

// loop owns the Machine. Only loop calls Decide, and it carries out the actions.
type loop struct {
	Config
	Deps
	requests  txn.Requests
	registry  membership.Registry
	events    chan message.Event
	updates   chan follow.Update // updates do not queue: a newer one replaces the last
	wake      *time.Timer
	hello     message.Hello
	peersOpen bool              // Peers.Open was called for the job
	nodes     []membership.Node // the result of registered

	effects sync.WaitGroup
	follow  context.CancelFunc
	group   *startedGroup
	members follow.MemberCache
	lease   store.Lease                   // the lease that is renewed
	renew   context.CancelFunc            // ends the renewals
	cancels map[string]context.CancelFunc // cancels the newest effect of each kind
	joining *joining.Joiner

	memory joining.Memory
}

func newLoop(c Config, d Deps) *loop {
	l := &loop{Config: c, Deps: d,
		requests: txn.Requests{Store: d.Store, Job: c.Job.Name},
		registry: membership.Registry{Store: d.Store, Job: c.Job.Name},
		events:   make(chan message.Event, 64),
		updates:  make(chan follow.Update),
		cancels:  map[string]context.CancelFunc{}}
	l.joining = joining.New(c.Config, joining.Deps{Store: d.Store, Workers: d.Workers, Peers: d.Peers,
		Disk: d.Disk, Saves: d.Saves, Say: d.Say, Members: &l.members, Memory: &l.memory,
		Send: l.send})
	return l
}

// run runs the loop in its own goroutine. A panic there ends the process at once, with its stack.
// In this goroutine the deferred calls would wait for effects that only the loop ends, and the
// workers would run on without an agent that answers signals.
func (l *loop) run(ctx context.Context, signals <-chan os.Signal) message.Result {
	done := ctx.Done()
	// The end of ctx asks this agent to leave. Requests that it then waits for must not be
	// cancelled.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer l.joining.Close() // after the last effect, because the name must be locked until then
	defer l.effects.Wait()
	defer cancel()
	turned := make(chan message.Result, 1)
	go func() {
		defer close(turned)
		turned <- l.runLoop(ctx, signals, done)
	}()
	r, ok := <-turned
	if !ok {
		runtime.Goexit() // as in the loop: a simulation killed it
	}
	return r
}

// runLoop is the loop: it handles one event after the other until the machine quits.
func (l *loop) runLoop(ctx context.Context, signals <-chan os.Signal, done <-chan struct{}) message.Result {
	l.wake = time.NewTimer(0)
	defer l.wake.Stop()
	m := machine.New(l.Config.machine(), time.Now())
	in := newInbox(Sources{Done: done, Signals: signals, Behind: l.Saves.Behind,
		Gone:    l.Saves.Gone(),
		Peers:   l.Peers.Signals,
		Updates: l.updates, Events: l.events, Wake: l.wake.C, Phase: l.Pace.Phase, Say: l.Say})
	defer in.Close()
	for {
		in.Wait()
		if l.Pace.Gate != nil {
			l.Pace.Gate()
		}
		for _, e := range in.Take() {
			if r := l.decide(ctx, m, e); r != nil {
				return *r
			}
		}
	}
}

// decide passes e to the machine and carries out its actions. It returns the result of a machine
// that quits, else nil.
func (l *loop) decide(ctx context.Context, m *machine.Machine, e message.Event) *message.Result {
	switch e := e.(type) {
	case message.Entered:
		l.peersOpen, l.nodes = true, nil
	case message.StoreRead:
		if e.Err == nil && l.peersOpen {
			l.Saves.Nodes(l.registered(&e.Snapshot), e.Head)
		}
	}
	for _, a := range m.Decide(e, time.Now()) {
		if q, ok := a.(message.Quit); ok {
			return &q.Result
		}
		l.do(ctx, a)
	}
	if l.peersOpen {
		l.Peers.Tell(l.hello) // which also proves that this loop is alive
	}
	return nil
}

// registered returns the nodes of the last read of all of them, with this node as it was read last.
// A read of its own registration alone does not show the others.
func (l *loop) registered(s *rendezvous.Snapshot) []membership.Node {
	if s.Whole {
		l.nodes = s.Nodes
		return l.nodes
	}
	self := l.joining.NodeName()
	others := slices.DeleteFunc(slices.Clone(l.nodes), func(n membership.Node) bool { return n.Node == self })
	l.nodes = append(others, s.Nodes...)
	return l.nodes
}

// send passes an event to the loop, unless the agent ends.
func (l *loop) send(ctx context.Context, e message.Event) {
	select {
	case l.events <- e:
	case <-ctx.Done():
	}
}

// effect runs f in another goroutine. Its result comes back as an event.
func (l *loop) effect(ctx context.Context, f func(ctx context.Context) message.Event) {
	l.effects.Go(func() {
		if e := f(ctx); e != nil {
			l.send(ctx, e)
		}
	})
}

// newestEffect is effect for work of which only the newest counts: it cancels the one before.
func (l *loop) newestEffect(ctx context.Context, kind string, f func(ctx context.Context) message.Event) {
	if cancel := l.cancels[kind]; cancel != nil {
		cancel()
	}
	own, cancel := context.WithCancel(ctx)
	l.cancels[kind] = cancel
	l.effect(ctx, func(context.Context) message.Event {
		defer cancel()
		return f(own)
	})
}

// keepLease renews a lease until Forget, or until the store says that the lease is gone.
func (l *loop) keepLease(ctx context.Context, lease store.Lease, ttl time.Duration) {
	if lease == 0 {
		return
	}
	if l.renew != nil {
		l.renew() // renewals of a lost lease
	}
	ctx, cancel := context.WithCancel(ctx)
	l.lease, l.renew = lease, cancel
	l.effects.Go(func() {
		membership.Keep(ctx, l.Store, membership.Leased{Lease: lease, TTL: ttl},
			func(sent time.Time, err error) {
				l.send(ctx, message.Renewed{Lease: lease, Sent: sent, Err: err})
			})
	})
}

// reader reads the job as node.
func (l *loop) reader(node string) follow.Reader {
	return follow.Reader{Store: l.Store, Job: l.Job.Name, Node: node, Members: &l.members}
}

// followScope follows scope, and ends the scope before.
func (l *loop) followScope(ctx context.Context, node string, scope follow.Scope) {
	if l.follow != nil {
		l.follow()
	}
	ctx, l.follow = context.WithCancel(ctx)
	l.effects.Go(func() {
		for s := range l.reader(node).Follow(ctx, scope) {
			select {
			case l.updates <- s:
			case <-ctx.Done():
			}
		}
	})
}
