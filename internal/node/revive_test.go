package node

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/internal/local"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// The agent finds a local server that another agent started again at another address.
func TestTheLocalServerIsFoundWhereItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		servers := memory.New()
		was, is := servers.Client("was"), servers.Client("is")
		asked := 0
		v := &revivingStore{store: was, at: "unix:///was", missed: make(chan struct{}, 1), close: func() {},
			ensure: func(context.Context) (local.Endpoint, error) { asked++; return "unix:///is", nil },
			open: func(_ context.Context, at local.Endpoint) (store.Store, error) {
				if at != "unix:///is" {
					t.Errorf("it is looked for at %s", at)
				}
				return is, nil
			}}
		done := make(chan struct{})
		go func() { defer close(done); v.run(ctx) }()
		if _, err := v.Get(ctx, "k", ""); err != nil {
			t.Fatal(err)
		}
		was.Cut(true)
		if _, err := v.Get(ctx, "k", ""); err == nil {
			t.Fatal("a server that is away answers")
		}
		time.Sleep(time.Second)
		if _, err := v.Txn(ctx, store.Txn{Then: []store.Write{store.Put("k", []byte("v"))}}); err != nil {
			t.Errorf("it is not asked where it is: %v", err)
		}
		if asked != 1 {
			t.Errorf("it was started %d times", asked)
		}
		cancel()
		<-done
	})
}

// The old store is closed after a move. Otherwise its connections would be tried forever.
func TestTheStoreOfTheOldPlaceIsClosed(t *testing.T) {
	opened := map[local.Endpoint]context.Context{}
	servers := memory.New()
	v := &revivingStore{store: servers.Client("first"), at: "unix:///first", close: func() {},
		open: func(ctx context.Context, at local.Endpoint) (store.Store, error) {
			if opened[at] = ctx; at == "unix:///none" {
				return nil, context.DeadlineExceeded
			}
			return servers.Client(string(at)), nil
		}}
	for _, at := range []local.Endpoint{"unix:///second", "unix:///second", "unix:///third", "unix:///none"} {
		v.move(t.Context(), at)
	}
	for at, closed := range map[local.Endpoint]bool{"unix:///second": true, "unix:///third": false,
		"unix:///none": true} {
		if got := opened[at].Err() != nil; got != closed {
			t.Errorf("%s is closed: %v", at, got)
		}
	}
	if v.at != "unix:///third" {
		t.Errorf("it is at %s", v.at)
	}
}
