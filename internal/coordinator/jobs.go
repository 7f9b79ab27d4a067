package coordinator

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// keepEnded is how long the keys of a job stay after its end.
const keepEnded = 30 * 24 * time.Hour

// jobs calls each with every job of the store. It leaps from job to job, so
// that events and checkpoints are not read.
func jobs(ctx context.Context, kv clientv3.KV, each func(schema.Job) error) error {
	for from := schema.Root; ; {
		r, err := kv.Get(ctx, from, clientv3.WithRange(store.End(schema.Root)), clientv3.WithLimit(1),
			clientv3.WithKeysOnly(), clientv3.WithSerializable())
		if err != nil {
			return fmt.Errorf("list jobs: %w", err)
		}
		if len(r.Kvs) == 0 {
			return nil
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(string(r.Kvs[0].Key), schema.Root), "/")
		if schema.ValidName(name) {
			if err := each(schema.Job(name)); err != nil {
				return err
			}
		}
		from = store.End(schema.Root + name + "/")
	}
}

// world is what the coordinator reads of a World: who writes it is
// pkg/rendezvous, which this package does not know.
type world struct {
	Phase  string    `json:"phase"`
	Time   time.Time `json:"time"`  // of the phase
	Count  int       `json:"count"` // of the members
	Slots  int       `json:"slots"` // workers a node
	Ranks  [][]int   `json:"ranks"` // of each node's workers, where they are not slots in a row
	Ledger struct {
		Used  int `json:"used"`
		Nodes []struct {
			Node       string    `json:"node"`
			Quarantine float64   `json:"quarantine"` // seconds
			Time       time.Time `json:"time"`
		} `json:"nodes"`
	} `json:"ledger"`
	Generation schema.Generation `json:"generation"`
	Quarantine []struct {
		Node  string            `json:"node"`
		Until schema.Generation `json:"until"`
	} `json:"quarantine"`
	Causes map[string]struct {
		Count  int   `json:"count"`
		IdleMS int64 `json:"idle_ms"`
	} `json:"causes"`
}

func record[T any](e *mvccpb.KeyValue) (T, bool) {
	v, err := schema.Decode[T](&store.Entry{Key: string(e.Key), Value: e.Value})
	return v, err == nil
}

// ended tells when the job of this World ended. A World that says nothing of
// it, also one of a format that is not known here, has not.
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

// removeEnded removes the jobs that ended long ago and have no nodes. The
// guards are those of Remove and that the World is the one that was read:
// whoever opens the job again at this moment wins.
func removeEnded(ctx context.Context, kv clientv3.KV, now time.Time) (removed int, err error) {
	err = jobs(ctx, kv, func(j schema.Job) error {
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
		).Then(append(tombs(j, job[0], now), clientv3.OpDelete(j.Prefix(), clientv3.WithPrefix()),
			clientv3.OpDelete(j.Secrets(), clientv3.WithPrefix()))...).Commit()
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

func compacted(err error) bool { return rpctypes.Error(err) == rpctypes.ErrCompacted }

// tombs say that the job was removed, and not lost with its store, as Remove does.
func tombs(j schema.Job, e *mvccpb.KeyValue, now time.Time) (ops []clientv3.Op) {
	job, _ := record[struct {
		UID      schema.UID   `json:"uid"`
		Succeeds schema.UID   `json:"succeeds"`
		Lineage  []schema.UID `json:"lineage"`
	}](e)
	for _, u := range append(job.Lineage, job.UID, job.Succeeds) {
		if u != "" {
			ops = append(ops, clientv3.OpPut(j.Removed(u), now.UTC().Format(time.RFC3339)))
		}
	}
	return ops
}
