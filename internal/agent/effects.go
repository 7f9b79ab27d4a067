package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/elasticd/elastic/internal/agent/joining"
	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/store"
)

// do carries out one action. What waits runs in another goroutine.
func (l *loop) do(ctx context.Context, a message.Action) {
	switch a := a.(type) {
	case message.Renew:
		l.keepLease(ctx, a.Lease, a.TTL)
	case message.Forget:
		l.forget(ctx, a.Lease)
	case message.Follow:
		l.followScope(ctx, l.joining.NodeName(), a.Scope)
	case message.WatchNodes:
		l.Peers.Watch(a.Refs)
	case message.SayHello:
		l.hello = a.Hello
	case message.Say:
		l.Say(a.Line)
	case message.Wake:
		l.wake.Reset(max(0, time.Until(a.At)))
	case message.StartWorkers:
		group := &startedGroup{ready: make(chan struct{})}
		l.group = group
		l.effect(ctx, func(ctx context.Context) message.Event { return l.startWorkers(ctx, a, group) })
	case message.ContinueWorkers:
		from, to := l.group, &startedGroup{ready: make(chan struct{})}
		l.group = to
		l.effect(ctx, func(ctx context.Context) message.Event { return l.continueWorkers(ctx, a.Start, from, to) })
	case message.PauseWorkers:
		l.pauseWorkers(ctx, a.Generation)
	case message.HaltWorkers:
		l.haltWorkers(ctx, a)
	case message.GetReady:
		l.newestEffect(ctx, "ready", func(ctx context.Context) message.Event { return l.getReady(ctx, a) })
	case message.CloseSaves:
		l.newestEffect(ctx, "close", func(ctx context.Context) message.Event { return l.closeSaves(ctx, a) })
	case message.Leave:
		l.newestEffect(ctx, "leave", func(ctx context.Context) message.Event {
			return message.Left{As: a.Me.Incarnation, Quick: a.Quick, Err: l.sayGoodbye(ctx, a)}
		})
	default:
		l.effect(ctx, func(ctx context.Context) message.Event { return l.answer(ctx, a) })
	}
}

// answer carries out a request, and returns the answer. It does not run in the goroutine of the loop.
func (l *loop) answer(ctx context.Context, a message.Action) message.Event {
	switch a := a.(type) {
	case message.Enter:
		return l.joining.Enter(ctx, a)
	case message.Read:
		return message.StoreRead{Update: l.reader(l.joining.NodeName()).ReadOwn(ctx), Asked: true}
	case message.Locate:
		return message.Located{Address: l.Peers.Here()}
	case message.PublishWarm:
		return l.publishWarm(ctx, a)
	case message.Register:
		return l.register(ctx, a)
	case message.Take:
		w, err := l.takeStep(ctx, a)
		if err == nil {
			l.effects.Go(func() { l.afterStep(ctx, a) })
		}
		return message.Stepped{World: w, Err: err}
	case message.PublishTiming:
		_ = l.requests.PublishTiming(ctx, &a.World, a.Timing) // refused if a newer generation is there
	case message.Remake:
		return l.joining.Remake(ctx, a)
	case message.Remember:
		err := l.memory.Keep(l.joining.NodeName(), a.Memory, l.Disk.Remember)
		return message.Remembered{Memory: a.Memory, Err: err}
	case message.ReportExit:
		return l.reportExit(ctx, a)
	case message.ReportFailures:
		err := l.requests.Fail(ctx, &a.World, a.Failures...)
		return message.FailureReported{Generation: a.World.Generation, Err: err}
	case message.Probe:
		return l.probe(ctx, a)
	case message.AskWatchers:
		return message.WatchersAsked{About: a.About, Holds: l.askWatchers(ctx, a.About, a.Watchers)()}
	case message.AwaitAnswer:
		return l.awaitAnswer(ctx, a)
	case message.AnswerSuspicion:
		return message.SuspicionAnswered{Err: l.registry.Answer(ctx, a.Suspicion, a.Me)}
	case message.Suspect:
		return l.suspect(ctx, a)
	case message.Withdraw:
		return message.Withdrawn{Err: l.registry.Withdraw(ctx, a.Generation, a.Suspicions...)}
	}
	return nil
}

// suspect writes suspicions.
func (l *loop) suspect(ctx context.Context, a message.Suspect) message.Event {
	rev, err := l.registry.Suspect(ctx, a.Me, a.Generation, a.Suspicions...)
	e := message.Suspected{Rev: rev, Err: err}
	for _, s := range a.Suspicions {
		e.About = append(e.About, s.Incarnation)
	}
	return e
}

// probe dials a node while its watchers are asked.
func (l *loop) probe(ctx context.Context, a message.Probe) message.Event {
	p, holds := message.Probed{About: a.About}, l.askWatchers(ctx, a.About, a.Watchers)
	if a.Silent {
		p.Answer = l.Peers.Confirm(ctx, a.About)
	} else {
		p.Answer = l.Peers.Probe(ctx, a.About)
	}
	p.Holds = holds()
	return p
}

// closeSaves ends captures.
func (l *loop) closeSaves(ctx context.Context, a message.CloseSaves) message.Event {
	end := l.Saves.Close
	if a.Last {
		end = l.Saves.Finish
	}
	return message.Closed{Generation: a.Generation, Err: end(ctx, a.Generation)}
}

// forget stops renewing a lease, and revokes it if the store answers within a second.
func (l *loop) forget(ctx context.Context, lease store.Lease) {
	if lease == 0 {
		return
	}
	if lease == l.lease {
		l.renew()
	}
	l.effects.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		l.revoke(ctx, lease)
	})
}

// revoke revokes a lease. After an error the lease expires.
func (l *loop) revoke(ctx context.Context, lease store.Lease) { _ = l.Store.Revoke(ctx, lease) }

// register writes the registration of this node again, on a new lease.
func (l *loop) register(ctx context.Context, a message.Register) message.Event {
	as := a.Node.Incarnation
	lease, ttl, err := l.registry.Grant(ctx, l.LeaseTTL)
	if err != nil {
		return message.Registered{As: as, Err: err}
	}
	a.Node.Lease = lease
	rev, err := l.registry.Reregister(ctx, a.Node, a.WorldRev)
	if err != nil {
		l.revoke(ctx, lease)
		return message.Registered{As: as, Err: err}
	}
	return message.Registered{As: as, Lease: lease, Rev: rev, TTL: ttl}
}

// takeStep carries out a step of the plan.
func (l *loop) takeStep(ctx context.Context, a message.Take) (rendezvous.World, error) {
	switch step := a.Step.(type) {
	case plan.Propose:
		l.commitOrphan(ctx, a, step)
		w, err := l.requests.Propose(ctx, &a.Seen, a.Me, step)
		if err == nil {
			for _, x := range step.Evicted { // else renewals of its lease would still succeed
				if n := a.Seen.Node(x.Node); n != nil {
					l.revoke(ctx, n.Lease)
				}
			}
		}
		return w, err
	case plan.Hold:
		return l.requests.Hold(ctx, &a.Seen, a.Me, step)
	case plan.Run:
		return l.requests.Run(ctx, &a.Seen, txn.Starting{Step: step, Idle: a.Idle, Timing: a.Timing})
	case plan.Finish:
		return l.requests.Finish(ctx, &a.Seen, step)
	case plan.ReportLost:
		return rendezvous.World{}, l.requests.ReportLost(ctx, &a.Seen, a.Me, step)
	case plan.End:
		step.By = a.Me.Node
		return l.requests.End(ctx, &a.Seen, step)
	}
	return rendezvous.World{}, fmt.Errorf("no request for step %T", a.Step)
}

// afterStep does what no step waits for. After an error the next Run removes the rest, and nothing
// depends on the records of machines.
func (l *loop) afterStep(ctx context.Context, a message.Take) {
	_ = l.requests.NoteIncidents(ctx, &a.Seen, a.Step)
	if _, ran := a.Step.(plan.Run); ran {
		_ = history.Trim(ctx, l.Store, l.Job.Name)
		l.requests.RemoveLeftovers(ctx, &a.Seen)
	}
}

// publishWarm proves that this node could be ready for a World: members reach it, a holder of the
// newest checkpoint answers, and its disks have room for that. Until then no World has it, because
// the workers of the others would stop for nothing.
func (l *loop) publishWarm(ctx context.Context, a message.PublishWarm) message.Event {
	r := message.PublishedWarm{As: a.Me.Incarnation}
	err := l.Saves.Fits(ctx, a.World)
	if err == nil {
		err = joining.Unreached(ctx, l.Peers, a.World.Members)
	}
	if err != nil {
		l.Saves.NotReady(err)
		r.Err, r.Local = err, !errors.Is(err, context.Canceled)
		return r
	}
	l.Saves.Ready()
	r.Err = l.registry.Warmed(ctx, a.Me)
	return r
}

// unfit is an error of this node that keeps it from being ready. A store that does not answer, or
// that has another World, is no such error.
type unfit struct{ error }

func (e unfit) Unwrap() error { return e.error }

// getReady brings what the generation needs to this node, and then reports Ready. It first writes
// the generation to disk: from then on this node refuses older ones.
func (l *loop) getReady(ctx context.Context, a message.GetReady) message.Event {
	fail := func(err error) message.Event {
		local := errors.As(err, new(unfit)) && !errors.Is(err, context.Canceled)
		if local {
			l.Saves.NotReady(err)
		}
		return message.Readied{Generation: a.World.Generation, Err: err, Local: local}
	}
	if err := l.Disk.SetLastGeneration(a.Me.Node, a.World.Generation); err != nil {
		return fail(unfit{err})
	}
	if err := l.memory.Keep(a.Me.Node, a.Memory, l.Disk.Remember); err != nil {
		return fail(unfit{err})
	}
	r := message.Readied{Generation: a.World.Generation}
	host, _, err := net.SplitHostPort(a.Me.Address)
	if err != nil {
		return fail(fmt.Errorf("own address: %w", err))
	}
	if r.InMemory = a.Member && a.InMemory; r.InMemory {
		if err = l.Saves.Stay(a.World); err != nil {
			return fail(unfit{err})
		}
		if from := a.World.Resume; from != nil { // the workers compare their state with it
			r.Resume = message.Resume{Step: from.Step, Samples: from.Samples}
		}
	}
	if a.Member {
		if !r.InMemory {
			if r.Resume, err = l.Saves.Prepare(ctx, a.World); err != nil {
				return fail(unfit{err})
			}
		}
		if r.Ports, err = l.Workers.Ports(2+a.Ports, host); err != nil {
			return fail(unfit{err})
		}
	}
	l.Saves.Ready()
	r.Begun = time.Now()
	err = l.requests.Ready(ctx, &a.World, a.Me, rendezvous.Ready{Host: host, Ports: r.Ports, StopMS: a.StopMS,
		AfterMS: since(a.Idle)})
	if err != nil {
		return fail(err)
	}
	return r
}

// since returns how long ago t was, by the clock of this process; nil for never.
func since(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	return new(time.Since(t).Milliseconds())
}

// reportExit writes the exit record of this node. If another record is there, the answer has its
// revision, which the next try replaces.
func (l *loop) reportExit(ctx context.Context, a message.ReportExit) message.Event {
	r := message.ExitReported{Generation: a.World.Generation, Exit: a.Exit}
	x := a.Exit
	x.Rev = a.Seen
	r.Rev, r.Err = l.requests.Exit(ctx, &a.World, a.Node, x)
	if !store.Moved(r.Err) {
		return r
	}
	// An earlier run of this agent may have written one.
	if read, err := l.Store.Get(ctx, l.Job.Name.Exit(a.World.Generation, a.Node), ""); err == nil &&
		read.One() != nil {
		r.Rev = read.One().Rev
	}
	return r
}

// askWatchers asks all watchers at once. The function that it returns waits for the answers, and
// returns the names of those that still suspect the node.
func (l *loop) askWatchers(
	ctx context.Context, about membership.Ref, watchers []membership.Ref,
) func() []string {
	holds := make([]bool, len(watchers))
	var all sync.WaitGroup
	for i, w := range watchers {
		all.Go(func() { holds[i] = l.Peers.Holds(ctx, w, about) })
	}
	return func() (names []string) {
		all.Wait()
		for i, w := range watchers {
			if holds[i] {
				names = append(names, w.Node)
			}
		}
		return names
	}
}

// handOver is how long a leaving node may take to copy its checkpoint to another node.
const handOver = 30 * time.Second

// sayGoodbye takes this node out of the job: it stops the job if this node is its last one, hands the
// newest checkpoint over, and announces that the node left.
func (l *loop) sayGoodbye(ctx context.Context, a message.Leave) error {
	if a.Quick {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Second)
		defer cancel()
	}
	if a.Stop != nil {
		seen := *a.Stop
		wish := seen.Wish
		wish.Stop, wish.By = seen.Job.Attempt, "stop"
		if _, err := l.requests.SetWish(ctx, &seen, wish); err != nil && !store.Moved(err) {
			return err
		}
		end := plan.End{Phase: rendezvous.Stopped,
			Outcome: rendezvous.Outcome{Code: 130, Source: "operator",
				Message: "its last node was interrupted"}}
		if _, err := l.requests.End(ctx, &seen, end); err != nil && !store.Moved(err) {
			return err
		}
	}
	if !a.Quick {
		limit, cancel := context.WithTimeout(ctx, handOver)
		l.Saves.HandOver(limit)
		cancel()
	}
	return l.registry.Leave(ctx, a.Me, a.Generation, a.Why)
}
