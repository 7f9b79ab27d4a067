package coordinator

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/mvcc"

	"github.com/elasticd/elastic/pkg/store"
)

// reader reads the data that this member has, without its own network and without a user: whoever
// serves what it reads decides who may see it.
type reader struct{ m *Member }

// errBehind says that this member lost its place in the history.
var errBehind = errors.New("the watch was cancelled")

// Get reads [key, end) after a round of the quorum, so that no minority shows old data as new.
func (r reader) Get(ctx context.Context, key, end string) (store.Read, error) {
	if err := r.m.etcd.Server.LinearizableReadNotify(ctx); err != nil {
		return store.Read{}, err
	}
	var to []byte
	if end != "" {
		to = []byte(end)
	}
	found, err := r.m.etcd.Server.KV().Range(ctx, []byte(key), to, mvcc.RangeOptions{})
	if err != nil {
		return store.Read{}, err
	}
	read := store.Read{Rev: found.Rev, Cluster: uint64(r.m.etcd.Server.Cluster().ID())}
	for i := range found.KVs {
		read.Entries = append(read.Entries, entry(found.KVs[i]))
	}
	return read, nil
}

func entry(kv *mvccpb.KeyValue) store.Entry {
	return store.Entry{Key: string(kv.Key), Value: kv.Value, Rev: kv.ModRevision, Made: kv.CreateRevision,
		Lease: store.Lease(kv.Lease)}
}

// Watch delivers the changes of [key, end) from a revision on.
func (r reader) Watch(ctx context.Context, key, end string, from int64) <-chan store.Change {
	out := make(chan store.Change)
	go func() {
		defer close(out)
		stream := r.m.etcd.Server.Watchable().NewWatchStream()
		defer stream.Close()
		if _, err := stream.Watch(ctx, clientv3.AutoWatchID, []byte(key), []byte(end), from); err != nil {
			tell(ctx, out, store.Change{Err: err})
			return
		}
		for {
			select {
			case <-ctx.Done():
				return
			case a, ok := <-stream.Chan():
				if !ok || a.CompactRevision != 0 {
					tell(ctx, out, store.Change{Err: errBehind})
					return
				}
				tell(ctx, out, change(a))
			}
		}
	}()
	return out
}

func tell(ctx context.Context, out chan<- store.Change, c store.Change) {
	select {
	case out <- c:
	case <-ctx.Done():
	}
}

func change(a mvcc.WatchResponse) store.Change {
	c := store.Change{Rev: a.Revision}
	for _, e := range a.Events {
		c.Events = append(c.Events, store.Event{Entry: entry(e.Kv), Deleted: e.Type == mvccpb.Event_DELETE})
	}
	return c
}
