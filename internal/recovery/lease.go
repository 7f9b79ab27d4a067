package recovery

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/store"
)

// put writes the claim if it is not there as it is now. It replaces the claim of this node that the
// store was found to hold and no other, so that a request that arrives late replaces nothing newer.
func (k *claimant) put(ctx context.Context, s *rendezvous.Snapshot) error {
	if k.lease == 0 {
		lease, ttl, err := k.registry.Grant(ctx, k.r.LeaseTTL)
		if err != nil {
			return err
		}
		k.hold(ctx, lease, ttl)
	}
	c := k.claim
	c.Lease, c.Rev = k.lease, 0
	if k.wrote != nil && reflect.DeepEqual(*k.wrote, c) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	before, err := k.before(ctx)
	if err != nil {
		return err
	}
	rev, err := k.requests.Claim(ctx, txn.Claiming{Claim: c, Before: before, Seen: s})
	if err != nil {
		k.wrote = nil
		if errors.Is(err, store.ErrLeaseLost) {
			k.lease = 0
		}
		return err
	}
	k.wrote, k.claim.Rev, k.claim.Lease = &c, rev, k.lease
	return nil
}

// before is the revision of the claim of this node that the store holds; 0: none. It is read where
// the last request to write it is not known to have been applied.
func (k *claimant) before(ctx context.Context) (int64, error) {
	if k.wrote != nil {
		return k.claim.Rev, nil
	}
	return k.requests.ClaimRev(ctx, k.claim.Node)
}

// hold renews the lease of the claim until it is lost or given back.
func (k *claimant) hold(ctx context.Context, lease store.Lease, ttl time.Duration) {
	k.drop()
	k.lease = lease
	ctx, k.keep = context.WithCancel(ctx)
	k.r.Go(func() {
		membership.Keep(ctx, k.r.Store, membership.Leased{Lease: lease, TTL: ttl},
			func(_ time.Time, err error) {
				if errors.Is(err, store.ErrLeaseLost) {
					select {
					case k.lapsed <- lease:
					case <-ctx.Done():
					}
				}
			})
	})
}

func (k *claimant) drop() {
	if k.keep != nil {
		k.keep()
	}
}

// giveBack ends the claim with its lease, so that no node waits for this one in vain.
func (k *claimant) giveBack(ctx context.Context) {
	k.drop()
	if k.lease == 0 {
		return
	}
	lease := k.lease
	k.r.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = k.r.Store.Revoke(ctx, lease) // else it ends by itself
	})
}

// lapse takes in that a lease is gone, and the claim with it. Those of others may be gone as well.
func (k *claimant) lapse(gone store.Lease) {
	if gone == k.lease {
		k.lease, k.wrote = 0, nil
		k.settling.missed()
	}
}
