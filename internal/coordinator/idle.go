package coordinator

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// WaitIdle returns nil when no client has had a lease or a connection for limit. It polls, because
// the end of a lease is not signalled.
func (m *Member) WaitIdle(ctx context.Context, limit time.Duration) error {
	look := time.NewTicker(min(max(limit/10, 10*time.Millisecond), 5*time.Second))
	defer look.Stop()
	busy := time.Now()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case now := <-look.C:
			used, err := m.used(ctx)
			if err != nil {
				return err
			}
			if used {
				busy = now
			}
			if last := time.Unix(0, m.conns.last.Load()); last.After(busy) { // a short connection
				busy = last
			}
			if now.Sub(busy) >= limit {
				return nil
			}
		}
	}
}

func (m *Member) used(ctx context.Context) (bool, error) {
	if m.conns.open.Load() > 0 {
		return true, nil
	}
	l, err := m.etcd.Server.LeaseLeases(ctx, &pb.LeaseLeasesRequest{})
	if err != nil {
		return false, fmt.Errorf("list leases: %w", err)
	}
	return len(l.Leases) > 0, nil
}
