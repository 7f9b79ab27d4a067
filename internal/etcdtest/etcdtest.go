// Package etcdtest runs real etcd servers in a test: a single member or a
// cluster. A single member starts in about a tenth of a second. The shortest
// lease is 1 s. All servers end with the test.
//
// Only the sync of the disk is left out: data survives Stop and Restart, but not
// a loss of power.
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

	"github.com/elasticd/elastic/internal/coordinator/streams"
)

// Option changes how servers are started.
type Option func(*options)

type options struct {
	tcp     bool
	timings [2]time.Duration
	change  func(*embed.Config)
}

// TCP makes the server listen on 127.0.0.1, for tests with a proxy in between.
// The default is a unix socket.
func TCP() Option { return func(o *options) { o.tcp = true } }

// Config changes any other setting, before every start.
func Config(change func(*embed.Config)) Option { return func(o *options) { o.change = change } }

// Server is one member. Only the test's goroutine may call its methods.
type Server struct {
	cfg    func() *embed.Config
	client url.URL
	name   string

	etcd    *embed.Etcd // nil while stopped
	streams *streams.Streams
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

// Cluster has the members of one cluster, running or stopped.
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

// Leader waits until there is a leader, and returns it.
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

// Endpoint returns the address for clients. Restart does not change it.
func (s *Server) Endpoint() string { return s.client.String() }

// Endpoints returns the address in a list.
func (s *Server) Endpoints() []string { return []string{s.Endpoint()} }

// Client returns a client of this server, closed with the test.
func (s *Server) Client(t testing.TB) *clientv3.Client {
	t.Helper()
	return client(t, s.Endpoints())
}

// Etcd returns the running server, nil while it is stopped.
func (s *Server) Etcd() *embed.Etcd { return s.etcd }

// Stop ends the server and keeps its data. Open streams end at once. A leader
// does not hand over its leadership.
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

// Wipe removes the data of a stopped server. The next Restart makes a new
// cluster. It works only for a single server.
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
	if n > 1 { // on a busy machine the leader must stay the leader
		o.timings = [2]time.Duration{20 * time.Millisecond, 200 * time.Millisecond}
	}
	for _, opt := range opts {
		opt(&o)
	}
	dir, err := os.MkdirTemp("", "etcd") // a short path: the path of a socket has a limit
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

// plan assigns ports to every member. If another process takes one before the
// member does, start plans all again.
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

// port picks a port below the range from which the kernel assigns ports.
func port() string { return fmt.Sprintf("127.0.0.1:%d", 15000+rand.N(17000)) }

// launch starts the members one after the other. Each asks its peers whether the
// cluster exists. Peers that do not listen yet refuse the connection at once.
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
	open := streams.New()
	c.GRPCAdditionalServerOptions = append(c.GRPCAdditionalServerOptions,
		grpc.ChainStreamInterceptor(open.Intercept))
	e, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	s.etcd, s.streams = e, open
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
