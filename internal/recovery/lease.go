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

// put writes the claim, unless the store has it as it is now. It replaces only the claim of this
// node that it read, so a request that arrives late replaces no newer claim.
func (k *claimant) put(ctx context.Context, s *rendezvous.Snapshot) error {
	if k.lease == 0 {
		lease, ttl, err := k.registry.Grant(ctx, k.r.LeaseTTL)
		if err != nil {
			return err
		}
		k.keepLease(ctx, lease, ttl)
	}
	c := k.claim
	c.Lease, c.Rev = k.lease, 0
	if k.written != nil && reflect.DeepEqual(*k.written, c) {
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
		k.written = nil
		if errors.Is(err, store.ErrLeaseLost) {
			k.lease = 0
		}
		return err
	}
	k.written, k.claim.Rev, k.claim.Lease = &c, rev, k.lease
	return nil
}

// before returns the revision of this node's claim in the store; 0: none. It reads the store unless
// the last write is known to have been applied.
func (k *claimant) before(ctx context.Context) (int64, error) {
	if k.written != nil {
		return k.claim.Rev, nil
	}
	return k.requests.ClaimRev(ctx, k.claim.Node)
}

// keepLease renews the lease of the claim until it is lost or given back.
func (k *claimant) keepLease(ctx context.Context, lease store.Lease, ttl time.Duration) {
	k.endRenewal()
	k.lease = lease
	ctx, k.stopRenewal = context.WithCancel(ctx)
	k.r.Go(func() {
		membership.Keep(ctx, k.r.Store, membership.Leased{Lease: lease, TTL: ttl},
			func(_ time.Time, err error) {
				if errors.Is(err, store.ErrLeaseLost) {
					select {
					case k.leaseEnded <- lease:
					case <-ctx.Done():
					}
				}
			})
	})
}

// endRenewal ends the renewals of the lease.
func (k *claimant) endRenewal() {
	if k.stopRenewal != nil {
		k.stopRenewal()
	}
}

// release ends the claim with its lease, so that no node waits for this one in vain.
func (k *claimant) release(ctx context.Context) {
	k.endRenewal()
	if k.lease == 0 {
		return
	}
	lease := k.lease
	k.r.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = k.r.Store.Revoke(ctx, lease) // else it expires
	})
}

// endLease handles the end of a lease, and with it of the claim. Claims of other nodes may have
// ended, too.
func (k *claimant) endLease(gone store.Lease) {
	if gone == k.lease {
		k.lease, k.written = 0, nil
		k.settling.restart()
	}
}
