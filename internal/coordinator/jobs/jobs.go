// Package jobs exports metrics of the jobs in the store, and removes jobs that ended long ago. It
// decodes records itself, without the packages that write them.
package jobs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// list calls each with every job of the store. It seeks from job to job, so it does not read events
// and checkpoints.
func list(ctx context.Context, kv clientv3.KV, each func(schema.Job) error) error {
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

// world has the fields of a world that this package reads. pkg/rendezvous writes them.
type world struct {
	Phase  string    `json:"phase"`
	Time   time.Time `json:"time"`  // when the phase began
	Count  int       `json:"count"` // of the members
	Slots  int       `json:"slots"` // workers per node
	Ranks  [][]int   `json:"ranks"` // of each node's workers, if they are not equal blocks
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
