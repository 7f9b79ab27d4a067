package jobs

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// keepEnded is how long the records of a job stay after its end.
const keepEnded = 30 * 24 * time.Hour

// RemoveEnded removes the jobs without nodes that ended long ago. Its guards are those of Remove,
// and that the world has not changed. A job that starts again at this moment therefore stays.
func RemoveEnded(ctx context.Context, kv clientv3.KV, now time.Time) (removed int, err error) {
	err = list(ctx, kv, func(j schema.Job) error {
		read := []clientv3.Op{clientv3.OpGet(j.Job()), clientv3.OpGet(j.Fence()), clientv3.OpGet(j.World())}
		r, err := kv.Txn(ctx).Then(read...).Commit()
		if err != nil {
			return fmt.Errorf("read job %s: %w", j, err)
		}
		s, err := rendezvous.DecodePart(j, entries(r))
		if err != nil || s.World == nil || !s.World.Phase.Ended() || now.Sub(s.World.Time) < keepEnded {
			return nil
		}
		t, err := kv.Txn(ctx).If(
			clientv3.Compare(clientv3.ModRevision(j.Job()), "=", s.Job.Rev),
			clientv3.Compare(clientv3.ModRevision(j.World()), "=", s.World.Rev),
			clientv3.Compare(clientv3.Version(j.Nodes()), "=", 0).WithPrefix(),
		).Then(clientv3.OpPut(j.Removed(s.Job.Identity()), now.UTC().Format(time.RFC3339)),
			clientv3.OpDelete(j.Prefix(), clientv3.WithPrefix()),
			clientv3.OpDelete(j.Secrets(), clientv3.WithPrefix())).Commit()
		if err != nil {
			return fmt.Errorf("remove job %s: %w", j, err)
		}
		if t.Succeeded {
			removed++
		}
		return nil
	})
	return removed, err
}
