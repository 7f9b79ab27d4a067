package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/elasticd/elastic/internal/etcdtest"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/etcd"
)

// No goroutine of a store outlives it. The servers of the tests, in the same
// process, may take a moment longer to serve their peers and to hang up on them (a store speaks no
// HTTP/1).
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).serve"),
		goleak.IgnoreAnyFunction("net/http.(*connReader).backgroundRead"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// refusing is an address without a listener, silent one with a listener that accepts and sends
// nothing.
func refusing(t *testing.T) string {
	l := listen(t)
	l.Close()
	return l.Addr().String()
}

func silent(t *testing.T) string { return listen(t).Addr().String() }

func listen(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// within bounds what a test waits for, in case it never comes.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func put(k, v string) store.Txn { return store.Txn{Then: []store.Write{store.Put(k, []byte(v))}} }

// Every request finds the endpoint that answers, even a transaction, because it did not leave for
// the dead one.
func TestDeadEndpoint(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	for name, dead := range map[string]string{"refusing": refusing(t), "silent": silent(t),
		"no socket": "unix:///none.sock"} {
		t.Run(name, func(t *testing.T) {
			s := open(t, etcd.Config{Endpoints: []string{dead, server.Endpoint()}})
			lease := store.Lease(0)
			for what, request := range map[string]func() error{
				"get":         func() error { _, err := s.Get(t.Context(), "/k", ""); return err },
				"transaction": func() error { _, err := s.Txn(t.Context(), put("/k", name)); return err },
				"grant": func() (err error) {
					lease, _, err = s.Grant(t.Context(), time.Minute)
					return err
				},
				"renew": func() error { _, err := s.Get(t.Context(), "/k", ""); return err },
				"probe": func() error { return s.Probe(t.Context()) },
				"watch": func() error { return (<-s.Watch(t.Context(), "/k", "", 1)).Err },
			} {
				s.Begin(0)
				if err := request(); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			for _, request := range []func() error{
				func() error { return s.Renew(t.Context(), lease) },
				func() error { return s.Revoke(t.Context(), lease) },
			} {
				s.Begin(0)
				if err := request(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// No connection is made to an endpoint that is not needed.
func TestConnectsLazily(t *testing.T) {
	server := etcdtest.Start(t, etcdtest.TCP())
	host := strings.TrimPrefix(server.Endpoint(), "http://")
	used, spare := newProxy(t, host), newProxy(t, host)
	s := open(t, etcd.Config{Endpoints: []string{used.address(), spare.address()}})
	if n := used.dialed() + spare.dialed(); n != 0 {
		t.Fatalf("%d connections before any request", n)
	}
	s.Begin(0)
	for range 20 {
		if _, err := s.Txn(t.Context(), put("/k", "v")); err != nil {
			t.Fatal(err)
		}
	}
	<-s.Watch(t.Context(), "/k", "", 1)
	if used.dialed() != 1 || spare.dialed() != 0 {
		t.Fatalf("%d and %d connections, want 1 and 0", used.dialed(), spare.dialed())
	}
}

// cluster is three members, each behind a proxy.
func cluster(t *testing.T) (etcdtest.Cluster, []*proxy, []string) {
	t.Helper()
	members := etcdtest.StartCluster(t, 3)
	var proxies []*proxy
	var addresses []string
	for _, e := range members.Endpoints() {
		p := newProxy(t, strings.TrimPrefix(e, "http://"))
		proxies = append(proxies, p)
		addresses = append(addresses, p.address())
	}
	return members, proxies, addresses
}

// A paused member causes no lost lease, no lost change and no unknown result.
func TestPausedMember(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	members, proxies, addresses := cluster(t)
	s := open(t, etcd.Config{Endpoints: addresses})
	other := open(t, etcd.Config{Endpoints: members.Endpoints()})
	s.Begin(0)

	lease, ttl, err := s.Grant(ctx, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Txn(ctx,
		store.Txn{Then: []store.Write{store.PutLeased("/node", []byte("1"), lease)}}); err != nil {
		t.Fatal(err)
	}
	read, err := s.Get(ctx, "/j/", store.End("/j/"))
	if err != nil {
		t.Fatal(err)
	}
	changes := s.Watch(ctx, "/j/", store.End("/j/"), read.Rev+1)
	<-changes // it is open

	proxies[0].pause()

	// Renewals succeed for longer than the lease would live without them.
	for range 4 {
		s.Begin(0)
		if err := s.Renew(ctx, lease); errors.Is(err, store.ErrLeaseLost) {
			t.Fatal(err)
		}
		<-time.After(ttl / 4)
	}

	// A transaction that left has an unknown result: the store does not send it again.
	s.Begin(0)
	if _, err := s.Txn(ctx, put("/j/once", "1")); err == nil || store.Refused(err) ||
		errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("transaction to a paused member: %v; the caller's context has not ended", err)
	}
	if r, err := other.Get(ctx, "/j/once", ""); err != nil || r.One() != nil {
		t.Fatalf("it arrived elsewhere: %v, %v", r.One(), err)
	}
	// Send repeats it, and the late copy of the first sending changes nothing.
	s.Begin(0)
	rev, err := store.Send(ctx, s, store.Request{
		If:   []store.Guard{store.Absent("/j/sent")},
		Then: []store.Write{store.Put("/j/sent", []byte("id"))},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Txn(ctx, put("/j/last", "1")); err != nil {
		t.Fatal(err)
	}
	sent := map[string]int64{}
	for c := range changes {
		if c.Err != nil {
			t.Fatal(c.Err)
		}
		for _, e := range c.Events {
			if sent[e.Key] != 0 || e.Deleted {
				t.Fatalf("%s sent again, or deleted: %+v", e.Key, e)
			}
			sent[e.Key] = e.Rev
		}
		if sent["/j/last"] != 0 {
			break
		}
	}
	if sent["/j/sent"] != rev || len(sent) != 2 {
		t.Fatalf("sent %v, want /j/sent at %d and /j/last", sent, rev)
	}

	// The first sending may arrive now; it changes nothing.
	proxies[0].resume()
	s.Begin(0)
	if r, err := s.Get(ctx, "/j/sent", ""); err != nil || r.One().Rev != rev {
		t.Fatalf("%+v, %v: sent twice", r.One(), err)
	}
}

// A watch continues over restarts and on other members. Each change is delivered once and in order.
func TestWatchOverFaults(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	members, proxies, addresses := cluster(t)
	s := open(t, etcd.Config{Endpoints: addresses})
	writer := open(t, etcd.Config{Endpoints: members.Endpoints()})
	r, err := writer.Get(ctx, "/j/", "")
	if err != nil {
		t.Fatal(err)
	}
	const agents = 3
	var wg sync.WaitGroup
	const last = 40
	for a := range agents {
		s.Begin(a)
		changes := s.Watch(ctx, "/j/", store.End("/j/"), r.Rev+1)
		wg.Go(func() {
			next := 0
			for c := range changes {
				for _, e := range c.Events {
					if want := fmt.Sprint(next); string(e.Value) != want {
						t.Errorf("agent %d was sent %s, want %s", a, e.Value, want)
						return
					}
					next++
				}
				if next == last {
					return
				}
			}
			t.Errorf("agent %d: the watch ended at %d", a, next)
		})
	}
	for i := range last {
		if i%4 == 1 {
			proxies[i/4%3].drop()
		}
		if i == 20 {
			leader := members.Leader(t)
			leader.Stop()
			defer leader.Restart(t)
		}
		if _, err := store.Send(ctx, writer, store.Request{
			If:   []store.Guard{store.Absent(fmt.Sprintf("/j/%d", i))},
			Then: []store.Write{store.Put(fmt.Sprintf("/j/%d", i), []byte(fmt.Sprint(i)))},
		}); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
}

// An etcd with default settings reports progress every ten minutes, and a store at rest has no
// revision to report. A watch hears of it all the same.
func TestSignsOfLifeOfAnyEtcd(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	var streams atomic.Int32
	server := etcdtest.Start(t, etcdtest.Config(func(c *embed.Config) {
		c.WatchProgressNotifyInterval = 10 * time.Minute
		c.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.ChainStreamInterceptor(
			func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
				streams.Add(1)
				return next(srv, ss)
			})}
	}))
	s := open(t, etcd.Config{Endpoints: server.Endpoints()})
	r, err := s.Get(ctx, "/k", "")
	if err != nil {
		t.Fatal(err)
	}
	changes := s.Watch(ctx, "/k", "", r.Rev+1)
	opened := <-changes
	for range 2 {
		if c := <-changes; c.Err != nil || len(c.Events) > 0 || c.Rev != opened.Rev {
			t.Fatalf("%+v, want a sign of life at %d", c, opened.Rev)
		}
	}
	if _, err := s.Txn(ctx, put("/k", "1")); err != nil {
		t.Fatal(err)
	}
	if c := <-changes; len(c.Events) != 1 || c.Rev != r.Rev+1 {
		t.Fatalf("sent %+v, want the change at %d", c, r.Rev+1)
	}
	if n := streams.Load(); n != 1 {
		t.Fatalf("the watch was opened %d times", n)
	}
}

func TestWipedServer(t *testing.T) {
	ctx := within(t)
	server := etcdtest.Start(t)
	s := open(t, etcd.Config{Endpoints: server.Endpoints()})
	lease, _, err := s.Grant(ctx, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := s.Txn(ctx, put("/k", "v")); err != nil {
			t.Fatal(err)
		}
	}
	was, err := s.Get(ctx, "/k", "")
	if err != nil {
		t.Fatal(err)
	}
	changes := s.Watch(ctx, "/k", "", was.Rev+1)
	<-changes
	server.Stop()
	if _, err := s.Get(ctx, "/k", ""); err == nil || store.Refused(err) {
		t.Errorf("get while it is down: %v", err)
	}
	if err := s.Renew(ctx, lease); err == nil || errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("renewal while it is down: %v; silence is no loss", err)
	}
	server.Wipe(t)
	server.Restart(t)
	var end error
	for c := range changes {
		end = c.Err
	}
	if !errors.Is(end, etcd.ErrOtherCluster) {
		t.Errorf("the watch ended with %v, want ErrOtherCluster", end)
	}
	// A watch from a revision of the old cluster does not become one of the new cluster.
	for c := range s.Watch(ctx, "/k", "", was.Rev+1) {
		end = c.Err
	}
	if !errors.Is(end, etcd.ErrOtherCluster) {
		t.Errorf("a new watch ended with %v, want ErrOtherCluster", end)
	}
	is, err := s.Get(ctx, "/k", "")
	if err != nil || is.Cluster == was.Cluster || is.One() != nil {
		t.Fatalf("%+v, %v", is, err)
	}
	if err := s.Renew(ctx, lease); !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("renewal: %v", err)
	}
}

// Many agents share one store, and each sees the writes of all. On a busy machine an answer may
// come too late; repeating the same write is harmless.
func TestManyAgents(t *testing.T) {
	server := etcdtest.Start(t)
	s := open(t, etcd.Config{Endpoints: server.Endpoints()})
	const agents = 100
	var wg sync.WaitGroup
	for a := range agents {
		wg.Go(func() {
			var lease store.Lease
			retry(t, func() (err error) {
				lease, _, err = s.Grant(t.Context(), time.Minute)
				return err
			})
			w := s.Watch(t.Context(), "/all/", store.End("/all/"), 1)
			put := store.PutLeased(fmt.Sprintf("/all/%03d", a), []byte("x"), lease)
			retry(t, func() error {
				_, err := s.Txn(t.Context(), store.Txn{Then: []store.Write{put}})
				return err
			})
			if err := s.Renew(t.Context(), lease); errors.Is(err, store.ErrLeaseLost) {
				t.Error(err)
			}
			seen := map[string]bool{}
			for len(seen) < agents {
				c := <-w
				if c.Err != nil {
					t.Error(c.Err)
					return
				}
				for _, e := range c.Events {
					seen[e.Key] = true
				}
			}
		})
	}
	wg.Wait()
}

// retry asks again while the answer does not come in time.
func retry(t *testing.T, ask func() error) {
	for {
		err := ask()
		if err == nil {
			return
		}
		if store.Refused(err) || t.Context().Err() != nil {
			t.Error(err)
			return
		}
	}
}
