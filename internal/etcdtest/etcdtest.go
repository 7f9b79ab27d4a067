// Package etcdtest runs real etcd servers inside a test: one member, or a
// cluster. A single one starts in about a tenth of a second; leases are granted
// from 1 s on; everything ends with the test.
//
// Everything is real but the disk's flush: data survives Stop and Restart, not
// a power cut.
package etcdtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/elasticd/elastic/internal/coordinator"
)

// Option changes how servers are started.
type Option func(*options)

type options struct {
	tcp     bool
	timings [2]time.Duration
	change  func(*embed.Config)
}

// TCP makes the server listen on 127.0.0.1, for tests that put something in
// between; the default is a unix socket.
func TCP() Option { return func(o *options) { o.tcp = true } }

// Timings sets heartbeat and election timeout; the least lease is
// ceil(1.5 × election) seconds.
func Timings(heartbeat, election time.Duration) Option {
	return func(o *options) { o.timings = [2]time.Duration{heartbeat, election} }
}

// Config changes any other setting, before every start.
func Config(change func(*embed.Config)) Option { return func(o *options) { o.change = change } }

// Server is one member. Its methods are for the test's goroutine.
type Server struct {
	cfg    func() *embed.Config
	client url.URL
	name   string

	etcd    *embed.Etcd // nil while stopped
	streams *coordinator.Streams
}

// Start starts a single server.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	return start(t, 1, opts)[0]
}

// StartCluster starts n members that form one cluster. They listen on
// 127.0.0.1.
func StartCluster(t testing.TB, n int, opts ...Option) Cluster {
	t.Helper()
	return start(t, n, append(opts, TCP()))
}

// Cluster is the members of one cluster, stopped ones too.
type Cluster []*Server

// Endpoints returns the addresses of all members.
func (c Cluster) Endpoints() []string {
	var all []string
	for _, s := range c {
		all = append(all, s.Endpoint())
	}
	return all
}

// Client returns a client that knows all members.
func (c Cluster) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	return client(t, c.Endpoints())
}

// Leader returns the running member that leads, waiting until there is one.
func (c Cluster) Leader(t testing.TB) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, s := range c {
			if s.etcd != nil && s.etcd.Server.Leader() == s.etcd.Server.MemberID() {
				return s
			}
		}
		select {
		case <-ctx.Done():
			t.Fatal("no member of the cluster leads")
		case <-tick.C:
		}
	}
}

func (c Cluster) stop() {
	var wg sync.WaitGroup
	for _, s := range c {
		wg.Go(s.Stop)
	}
	wg.Wait()
}

// Endpoint is the address for clients; it stays over restarts.
func (s *Server) Endpoint() string { return s.client.String() }

// Endpoints is the one address, in a list.
func (s *Server) Endpoints() []string { return []string{s.Endpoint()} }

// Client returns a client of this server, closed with the test.
func (s *Server) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	return client(t, s.Endpoints())
}

// Etcd is the running server itself, nil while it is stopped.
func (s *Server) Etcd() *embed.Etcd { return s.etcd }

// Stop ends the server and keeps its data. Open streams end at once, and
// leadership is not handed over.
func (s *Server) Stop() {
	if s.etcd == nil {
		return
	}
	s.streams.Stop()
	s.etcd.Server.HardStop()
	s.etcd.Close()
	s.etcd = nil
}

// Restart starts a stopped server on the same data and address.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.launch(); err != nil {
		t.Fatalf("restart etcd: %v", err)
	}
	s.wait(t)
}

// Wipe removes the data of a stopped server: the next Restart makes another
// cluster. Only for a single server.
func (s *Server) Wipe(t testing.TB) {
	t.Helper()
	if s.etcd != nil {
		t.Fatal("wipe of a running server")
	}
	if err := os.RemoveAll(s.cfg().Dir); err != nil {
		t.Fatal(err)
	}
	was := s.cfg
	token := strconv.FormatUint(rand.Uint64(), 36)
	s.cfg = func() *embed.Config {
		c := was()
		c.InitialClusterToken = token
		return c
	}
}

func start(t testing.TB, n int, opts []Option) Cluster {
	t.Helper()
	o := options{timings: [2]time.Duration{10 * time.Millisecond, 100 * time.Millisecond}}
	if n > 1 { // a busy machine must not cost the leader its place
		o.timings = [2]time.Duration{20 * time.Millisecond, 200 * time.Millisecond}
	}
	for _, opt := range opts {
		opt(&o)
	}
	dir, err := os.MkdirTemp("", "etcd") // short: the path of a socket has a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })

	var members Cluster
	t.Cleanup(func() { members.stop() })
	for attempt := 0; ; attempt++ {
		members = plan(n, filepath.Join(dir, strconv.Itoa(attempt)), o)
		if err = launch(members); err == nil {
			break
		}
		members.stop()
		if attempt == 9 {
			t.Fatalf("start etcd: %v", err)
		}
	}
	for _, s := range members {
		s.wait(t)
	}
	return members
}

// plan gives every member its ports. Another process may take one before the
// member does; then all are planned again.
func plan(n int, dir string, o options) Cluster {
	token := strconv.FormatUint(rand.Uint64(), 36)
	peers, all := make([]url.URL, n), ""
	for i := range peers {
		peers[i] = url.URL{Scheme: "http", Host: port()}
		all += fmt.Sprintf(",m%d=%s", i, &peers[i])
	}
	var members Cluster
	for i := range n {
		s := &Server{name: fmt.Sprintf("m%d", i)}
		home := filepath.Join(dir, s.name)
		s.client = url.URL{Scheme: "unix", Path: filepath.Join(dir, s.name+".sock")}
		if o.tcp {
			s.client = url.URL{Scheme: "http", Host: port()}
		}
		s.cfg = func() *embed.Config {
			c := embed.NewConfig()
			c.Name, c.Dir = s.name, home
			c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{s.client}, []url.URL{s.client}
			c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peers[i]}, []url.URL{peers[i]}
			if n == 1 {
				c.ListenPeerUrls = nil
			}
			c.InitialCluster, c.InitialClusterToken = all[1:], token
			c.TickMs, c.ElectionMs = uint(o.timings[0].Milliseconds()), uint(o.timings[1].Milliseconds())
			c.WatchProgressNotifyInterval = time.Second
			c.EnableGRPCGateway = false
			c.UnsafeNoFsync = true
			c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
			if o.change != nil {
				o.change(c)
			}
			return c
		}
		members = append(members, s)
	}
	return members
}

// port picks one below the range that the kernel gives out by itself.
func port() string { return fmt.Sprintf("127.0.0.1:%d", 15000+rand.N(17000)) }

// launch starts one after the other: a member asks its peers whether the
// cluster exists, and those that do not listen yet refuse at once.
func launch(members Cluster) error {
	for _, s := range members {
		if err := s.launch(); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) launch() error {
	if err := os.MkdirAll(filepath.Dir(s.cfg().Dir), 0o700); err != nil {
		return err
	}
	c := s.cfg()
	streams := coordinator.NewStreams()
	c.GRPCAdditionalServerOptions = append(c.GRPCAdditionalServerOptions,
		grpc.ChainStreamInterceptor(streams.Intercept))
	e, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	s.etcd, s.streams = e, streams
	return nil
}

func (s *Server) wait(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	select {
	case <-s.etcd.Server.ReadyNotify():
	case err := <-s.etcd.Err():
		t.Fatalf("etcd %s: %v", s.name, err)
	case <-ctx.Done():
		t.Fatalf("etcd %s is not ready: %v", s.name, ctx.Err())
	}
}

func client(t testing.TB, endpoints []string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
