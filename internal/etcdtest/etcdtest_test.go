package etcdtest_test

import (
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/etcdtest"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestDataSurvivesRestart(t *testing.T) {
	for name, opts := range map[string][]etcdtest.Option{"unix": nil, "tcp": {etcdtest.TCP()}} {
		t.Run(name, func(t *testing.T) {
			s := etcdtest.Start(t, opts...)
			c := s.Client(t)
			put, err := c.Put(t.Context(), "k", "v")
			if err != nil {
				t.Fatal(err)
			}
			w := c.Watch(t.Context(), "k", clientv3.WithRev(put.Header.Revision+1))

			s.Stop()
			s.Restart(t)
			got, err := c.Get(t.Context(), "k")
			if err != nil || len(got.Kvs) != 1 || got.Header.Revision != put.Header.Revision {
				t.Fatalf("after a restart: %v, %v; put at revision %d", got, err, put.Header.Revision)
			}
			if got.Header.ClusterId != put.Header.ClusterId {
				t.Error("a restart made another cluster")
			}
			if _, err := c.Put(t.Context(), "k", "w"); err != nil {
				t.Fatal(err)
			}
			if r, ok := <-w; !ok || r.Err() != nil || len(r.Events) != 1 {
				t.Errorf("the watch did not go on after the restart: %+v", r)
			}

			s.Stop()
			s.Wipe(t)
			s.Restart(t)
			if got, err = s.Client(t).Get(t.Context(), "k"); err != nil || len(got.Kvs) != 0 ||
				got.Header.ClusterId == put.Header.ClusterId {
				t.Errorf("after a wipe: %v, %v; want another, empty cluster", got, err)
			}
		})
	}
}

func TestLeastLease(t *testing.T) {
	g, err := etcdtest.Start(t).Client(t).Grant(t.Context(), 1)
	if err != nil || g.TTL != 1 {
		t.Fatalf("grant of 1 s: %+v, %v", g, err)
	}
}

func TestClusterOutlivesItsLeader(t *testing.T) {
	c := etcdtest.StartCluster(t, 3)
	cl := c.Client(t)
	if _, err := cl.Put(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	old := c.Leader(t)
	old.Stop()
	if next := c.Leader(t); next == old {
		t.Fatal("a stopped member leads")
	}
	if got, err := cl.Get(t.Context(), "k"); err != nil || len(got.Kvs) != 1 {
		t.Fatalf("two of three: %v, %v", got, err)
	}
	old.Restart(t)
	if got, err := old.Client(t).Get(t.Context(), "k"); err != nil || len(got.Kvs) != 1 {
		t.Fatalf("the member that came back: %v, %v", got, err)
	}
}

func TestStopDoesNotWaitForStreams(t *testing.T) {
	s := etcdtest.Start(t)
	c := s.Client(t)
	w := c.Watch(t.Context(), "k", clientv3.WithCreatedNotify())
	<-w
	ended := make(chan struct{})
	go func() { s.Stop(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(4 * time.Second): // etcd by itself takes 5.2 s
		t.Error("stop waits for an open watch")
	}
	<-ended
}
