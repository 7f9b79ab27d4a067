package agent

import (
	"context"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/membership"
)

// A node has awaitReads times awaitEvery to answer a suspicion in the store. Each read must be
// answered within awaitEvery, because a store that is slow for this node may be slow for the other
// one. From read awaitLease on, the lease is read too. A node that is stopped has not renewed its
// lease since the sign. A live one has, even if its watch of the store is silent.
const (
	awaitReads = 4
	awaitLease = 2
	awaitEvery = 250 * time.Millisecond
)

// awaitAnswer reads the suspicion until the time has passed, then the lease too. It dials the node
// in the last interval. It begins again if a read failed and the suspicion is still there.
func (l *loop) awaitAnswer(ctx context.Context, a message.AwaitAnswer) message.Event {
	e := message.Awaited{About: a.About, Rev: a.Suspicion.Rev}
	dialled := make(chan membership.Answer, 1)
	for i := range awaitReads {
		if i == awaitReads-1 {
			l.effects.Go(func() { dialled <- l.Peers.Confirm(ctx, a.About) })
		}
		wait := time.NewTimer(awaitEvery)
		select {
		case <-ctx.Done():
			wait.Stop()
			return nil
		case <-wait.C:
		}
		if e.Err = l.noSignOf(ctx, a, i); e.Err != nil {
			return e
		}
	}
	e.Answer = <-dialled
	return e
}

// noSignOf is read i: it returns nil if the store shows no sign of the suspected node.
func (l *loop) noSignOf(ctx context.Context, a message.AwaitAnswer, i int) error {
	err := inTime(ctx, func(ctx context.Context) error { return l.registry.Unanswered(ctx, a.Suspicion) })
	if err != nil || i < awaitLease {
		return err
	}
	return inTime(ctx,
		func(ctx context.Context) error { return membership.NotRenewed(ctx, l.Store, a.Lease) })
}

// inTime makes a read that must be answered within awaitEvery.
func inTime(ctx context.Context, read func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, awaitEvery)
	defer cancel()
	return read(ctx)
}
