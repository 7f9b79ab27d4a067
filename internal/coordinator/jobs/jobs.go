// Package jobs exports metrics of the jobs in the store, and removes jobs that ended long ago.
package jobs

import (
	"context"
	"fmt"
	"strings"

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

// entries returns what a transaction read.
func entries(r *clientv3.TxnResponse) (read store.Read) {
	for _, answer := range r.Responses {
		for _, kv := range answer.GetResponseRange().Kvs {
			read.Entries = append(read.Entries, entry(kv))
		}
	}
	return read
}

func entry(kv *mvccpb.KeyValue) store.Entry {
	return store.Entry{Key: string(kv.Key), Value: kv.Value, Rev: kv.ModRevision}
}
