package etcd_test

import (
	"testing"

	"github.com/elasticd/elastic/internal/etcdtest"
	"github.com/elasticd/elastic/pkg/store/etcd"
	"github.com/elasticd/elastic/pkg/store/memory"
	"github.com/elasticd/elastic/pkg/store/storetest"
)

func open(t *testing.T, c etcd.Config) *etcd.Store {
	t.Helper()
	s, err := etcd.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func subject(t *testing.T, server *etcdtest.Server) storetest.Subject {
	client := server.Client(t)
	return storetest.Subject{
		A: open(t, etcd.Config{Endpoints: server.Endpoints()}),
		B: open(t, etcd.Config{Endpoints: server.Endpoints()}),
		Compact: func(rev int64) {
			if _, err := client.Compact(t.Context(), rev); err != nil {
				t.Error(err)
			}
		},
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	storetest.Run(t, func(t *testing.T, test func(*testing.T, storetest.Subject)) {
		test(t, subject(t, server))
	})
}

// The store in memory behaves as etcd does.
func TestSameAsInMemory(t *testing.T) {
	t.Parallel()
	c := memory.New()
	storetest.Same(t, subject(t, etcdtest.Start(t)), storetest.Subject{A: c.Client("a"), B: c.Client("b"),
		Compact: c.Compact})
}
