package joining

// This file makes a job again that the store has lost, from what the agents that live know
// (docs/PROTOCOL.md, section 10). Package plan decides what is made. This file asks the other
// agents over their own connections, and sends the transaction.

import (
	"context"
	"sync"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
)

const (
	// answerLimit is how long a member may take to answer what it knows. One that does not answer in
	// this time does not live, as far as the job that is made again is concerned.
	answerLimit = time.Second
	// mostAsked is how many members are asked at the same time.
	mostAsked = 32
)

// RecoveryPeers asks other agents.
type RecoveryPeers interface {
	// Knows returns what the agent of that incarnation knows of the job. An error means that it did
	// not answer.
	Knows(ctx context.Context, of membership.Ref) (plan.Knowledge, error)
}

// Remake makes the lost job again, if no other member knows more of it. It fails with store.ErrMoved if
// another agent was faster. me is this node, and seen the whole job as the store shows it.
func Remake(
	ctx context.Context, p RecoveryPeers, r txn.Requests, x RemakeRequest,
) error {
	m := plan.DecideRemake(x.Lost, askMemory(ctx, p, x))
	if m == nil {
		return nil
	}
	return r.Remake(ctx, txn.Remaking{Node: x.Me.Node, Job: m, Secret: x.Secret, Seen: x.Seen})
}

// RemakeRequest is a lost job that this node would make again.
type RemakeRequest struct {
	Me     membership.Ref
	Lost   plan.LostStore
	Secret []byte
	Seen   *rendezvous.Snapshot
}

// askMemory asks the other members of the newest World what they know.
func askMemory(ctx context.Context, p RecoveryPeers, x RemakeRequest) (known []plan.Knowledge) {
	if x.Lost.World == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	answers := make([]*plan.Knowledge, len(x.Lost.World.Members))
	turn := make(chan struct{}, mostAsked)
	var all sync.WaitGroup
	for i, m := range x.Lost.World.Members {
		if m.Same(x.Me) {
			continue
		}
		all.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			if k, err := p.Knows(ctx, m); err == nil {
				k.Node = m.Node
				answers[i] = &k
			}
		})
	}
	all.Wait()
	for _, k := range answers {
		if k != nil {
			known = append(known, *k)
		}
	}
	return known
}
