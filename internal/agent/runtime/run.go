package runtime

import (
	"context"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/internal/agent/inbox"
	"github.com/elasticd/elastic/internal/agent/joining"
	"github.com/elasticd/elastic/internal/agent/machine"
	"github.com/elasticd/elastic/internal/recovery"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/store"
)

// Run takes part in the job until it ends, this node leaves, or ctx ends. Signals are the user's:
// the first asks the node to leave, a second one of its kind not to wait for anything.
func Run(ctx context.Context, c Config, d Deps, signals <-chan os.Signal) event.Result {
	return newLoop(c, d).run(ctx, signals)
}

// loop owns the Machine: it alone calls Decide, and carries out what Decide says.
type loop struct {
	Config
	Deps
	requests txn.Requests
	registry membership.Registry
	events   chan event.Event
	updates  chan follow.Update // updates do not queue: a newer one replaces the last
	wake     *time.Timer
	hello    action.Hello
	met      bool              // Peers knows the job
	nodes    []membership.Node // as registered tells

	effects sync.WaitGroup
	follow  context.CancelFunc
	group   *startedGroup
	members follow.MemberCache
	lease   store.Lease                   // that is renewed
	renew   context.CancelFunc            // ends that
	under   map[string]context.CancelFunc // the newest effect of each kind that a newer one overtakes
	joining *joining.Joiner

	memory recovery.Memory

	gate  func()        // a test stops the process here
	phase time.Duration // a test lets agents tick at different times
}

func newLoop(c Config, d Deps) *loop {
	l := &loop{Config: c, Deps: d,
		requests: txn.Requests{Store: d.Store, Job: c.Job.Name},
		registry: membership.Registry{Store: d.Store, Job: c.Job.Name},
		events:   make(chan event.Event, 64),
		updates:  make(chan follow.Update),
		under:    map[string]context.CancelFunc{}}
	l.joining = joining.New(c.Config, joining.Deps{Store: d.Store, Workers: d.Workers, Peers: d.Peers,
		Disk: d.Disk, Saves: d.Saves, Say: d.Say, Members: &l.members, Memory: &l.memory, Go: l.effects.Go,
		Send: l.send})
	return l
}

// run has the loop turn on a goroutine of its own. A panic there ends the process at once, with its
// stack: on this one, what is deferred would wait for effects that only the loop ends, and the
// workers would go on without an agent that answers signals.
func (l *loop) run(ctx context.Context, signals <-chan os.Signal) event.Result {
	done := ctx.Done()
	// The end of ctx asks this agent to go. What it waits for then must be able to answer.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer l.joining.Close() // after the last effect: the name is held until nothing of this agent acts
	defer l.effects.Wait()
	defer cancel()
	turned := make(chan event.Result, 1)
	go func() {
		defer close(turned)
		turned <- l.turn(ctx, signals, done)
	}()
	r, ok := <-turned
	if !ok {
		runtime.Goexit() // as the loop did: a test killed it
	}
	return r
}

// turn is the loop: one event after the other, until the machine quits.
func (l *loop) turn(ctx context.Context, signals <-chan os.Signal, done <-chan struct{}) event.Result {
	l.wake = time.NewTimer(0)
	defer l.wake.Stop()
	m := machine.New(l.Config.machine(), time.Now())
	in := inbox.New(inbox.Sources{Done: done, Signals: signals, Behind: l.Saves.Behind,
		Peers:   l.Peers.Signals,
		Updates: l.updates, Events: l.events, Wake: l.wake.C, Phase: l.phase, Say: l.Say})
	defer in.Close()
	for {
		in.Wait()
		if l.gate != nil {
			l.gate()
		}
		for _, e := range in.Take() {
			if r := l.decide(ctx, m, e); r != nil {
				return *r
			}
		}
	}
}

// decide has the machine decide about e, and carries out what it says; the result is that of a
// machine that quits.
func (l *loop) decide(ctx context.Context, m *machine.Machine, e event.Event) *event.Result {
	switch e := e.(type) {
	case event.Entered:
		l.met, l.nodes = true, nil
	case event.StoreRead:
		if e.Err == nil && l.met {
			l.Saves.Nodes(l.registered(&e.Snapshot), e.Head)
		}
	}
	for _, a := range m.Decide(e, time.Now()) {
		if q, ok := a.(action.Quit); ok {
			return &q.Result
		}
		l.do(ctx, a)
	}
	if l.met {
		l.Peers.Tell(l.hello) // also the proof that this loop is alive
	}
	return nil
}

// registered are the nodes of the last read of all of them, this one as it was read last: a read of its
// own registration alone says nothing of the others.
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

// send hands an event to the owner of the state, unless the agent ends.
func (l *loop) send(ctx context.Context, e event.Event) {
	select {
	case l.events <- e:
	case <-ctx.Done():
	}
}

// effect runs f beside the loop; what it returns comes back as an event.
func (l *loop) effect(ctx context.Context, f func(ctx context.Context) event.Event) {
	l.effects.Go(func() {
		if e := f(ctx); e != nil {
			l.send(ctx, e)
		}
	})
}

// sole is effect for work of which only the newest counts: the older is cut short.
func (l *loop) sole(ctx context.Context, kind string, f func(ctx context.Context) event.Event) {
	if cancel := l.under[kind]; cancel != nil {
		cancel()
	}
	own, cancel := context.WithCancel(ctx)
	l.under[kind] = cancel
	l.effect(ctx, func(context.Context) event.Event {
		defer cancel()
		return f(own)
	})
}

// keepLease renews a lease until Forget, or until the store says that it is gone.
func (l *loop) keepLease(ctx context.Context, lease store.Lease, ttl time.Duration) {
	if lease == 0 {
		return
	}
	if l.renew != nil {
		l.renew() // of a lease that was lost
	}
	ctx, cancel := context.WithCancel(ctx)
	l.lease, l.renew = lease, cancel
	l.effects.Go(func() {
		membership.Keep(ctx, l.Store, membership.Leased{Lease: lease, TTL: ttl},
			func(sent time.Time, err error) {
				l.send(ctx, event.Renewed{Lease: lease, Sent: sent, Err: err})
			})
	})
}

// reader reads the job as node.
func (l *loop) reader(node string) follow.Reader {
	return follow.Reader{Store: l.Store, Job: l.Job.Name, Node: node, Members: &l.members}
}

// followScope follows scope in place of the one before.
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
