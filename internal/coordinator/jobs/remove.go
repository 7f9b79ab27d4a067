package jobs

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elasticd/elastic/pkg/schema"
)

// keepEnded is how long the records of a job stay after its end.
const keepEnded = 30 * 24 * time.Hour

// ended returns the time when the job of a world ended. A world without that time, or with an
// unknown format, has not ended.
func ended(e *mvccpb.KeyValue) (time.Time, bool) {
	w, ok := record[world](e)
	if !ok || w.Time.IsZero() {
		return time.Time{}, false
	}
	switch w.Phase {
	case "done", "failed", "stopped":
		return w.Time, true
	}
	return time.Time{}, false
}

// RemoveEnded removes the jobs without nodes that ended long ago. Its guards are those of Remove,
// and that the world has not changed. A job that starts again at this moment therefore stays.
func RemoveEnded(ctx context.Context, kv clientv3.KV, now time.Time) (removed int, err error) {
	err = list(ctx, kv, func(j schema.Job) error {
		r, err := kv.Txn(ctx).Then(clientv3.OpGet(j.Job()), clientv3.OpGet(j.World())).Commit()
		if err != nil {
			return fmt.Errorf("read job %s: %w", j, err)
		}
		job, world := r.Responses[0].GetResponseRange().Kvs, r.Responses[1].GetResponseRange().Kvs
		if len(job) == 0 || len(world) == 0 {
			return nil
		}
		if end, ok := ended(world[0]); !ok || now.Sub(end) < keepEnded {
			return nil
		}
		t, err := kv.Txn(ctx).If(
			clientv3.Compare(clientv3.ModRevision(j.Job()), "=", job[0].ModRevision),
			clientv3.Compare(clientv3.ModRevision(j.World()), "=", world[0].ModRevision),
			clientv3.Compare(clientv3.Version(j.Nodes()), "=", 0).WithPrefix(),
		).Then(clientv3.OpPut(j.Removed(identity(job[0])), now.UTC().Format(time.RFC3339)),
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

// identity returns the uid that the job had first, under which nodes look for its tombstone.
func identity(e *mvccpb.KeyValue) schema.UID {
	job, _ := record[struct {
		UID   schema.UID `json:"uid"`
		First schema.UID `json:"first_uid"`
	}](e)
	return cmp.Or(job.First, job.UID, "none")
}
