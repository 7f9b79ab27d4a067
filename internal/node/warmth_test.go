package node

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// A node reports its warm workers when their number changes, and removes what an earlier agent reported.
func TestWarmWorkersAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := memory.New().Client("a")
		key := schema.Job("x").Warm("a")
		earlier := store.Put(key, schema.Encode(rendezvous.WarmWorkers{Count: 3, Bytes: 3}))
		if _, err := s.Txn(ctx, store.Txn{Then: []store.Write{earlier}}); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		now := rendezvous.WarmWorkers{}
		c := newWarmCount(s, key, func() (int, int64) {
			mu.Lock()
			defer mu.Unlock()
			return now.Count, now.Bytes
		})
		var effects sync.WaitGroup
		effects.Go(func() { c.Run(ctx) })
		waits := func(w rendezvous.WarmWorkers, reported rendezvous.WarmWorkers) {
			t.Helper()
			mu.Lock()
			now = w
			mu.Unlock()
			c.Changed()
			synctest.Wait()
			all, err := s.Get(ctx, key, "")
			if err != nil {
				t.Fatal(err)
			}
			got := rendezvous.WarmWorkers{}
			if len(all.Entries) > 0 {
				got, _ = schema.Decode[rendezvous.WarmWorkers](&all.Entries[0])
			}
			if got != reported {
				t.Errorf("%+v wait, and %+v is reported", w, got)
			}
		}
		none := rendezvous.WarmWorkers{}
		waits(none, none)
		two := rendezvous.WarmWorkers{Count: 2, Bytes: 1000}
		waits(two, two)
		waits(rendezvous.WarmWorkers{Count: 2, Bytes: 1090}, two) // the difference is too small to show
		more := rendezvous.WarmWorkers{Count: 2, Bytes: 1200}
		waits(more, more)
		waits(none, none)
		cancel()
		effects.Wait()
	})
}
