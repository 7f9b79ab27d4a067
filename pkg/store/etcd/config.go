// Package etcd is the one door to a real etcd: store.Store over clientv3's
// connections, as facts about etcd demand and not as its stock client does it.
//
// Each endpoint has a client of its own, connected when it is first needed:
// the stock balancer hides a paused member. Every request has its own short
// limit and moves on to the next endpoint; the endpoint that answers is kept.
// Leases are renewed once per call, watches prove that they are alive. A
// Store is safe for any number of agents at a time.
package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/grpclog"

	"github.com/elasticd/elastic/pkg/store"
)

// Config says how to reach an etcd. The zero value of everything but
// Endpoints is an open etcd without TLS.
type Config struct {
	Endpoints []string // host:port, http(s)://host:port, unix:///path

	CACert, Cert, Key string // PEM files, as etcdctl's flags

	User     string // name, or name:password
	Password string // used when User has none
}

// How a lost connection is made again: every store.Again at least. gRPC's own defaults wait up to
// two minutes between attempts, which would be the time an agent needs to see that an etcd is back.
const (
	connectLimit = 3 * time.Second
	pingAfter    = 10 * time.Second // gRPC allows no less
	pingLimit    = 3 * time.Second
	maxSend      = 2 << 20 // above etcd's own limit of 1.5 MiB, which it explains better

	// A window of fixed size: gRPC would find one by a ping for each answer, which costs an agent
	// at rest more than the answers do.
	window = 4 << 20
)

// Store is a store.Store over a real etcd.
type Store struct {
	endpoints []string
	tls       *tls.Config
	auth      *auth
	cert, key string // files of our certificate; "": none

	at      atomic.Int64  // index of the endpoint that answered last
	cluster atomic.Uint64 // as the last read saw it; 0: none yet

	mu      sync.Mutex // guards what follows
	clients []*clientv3.Client
	closed  bool
}

// Open makes a Store and connects to nothing yet: Probe says whether an etcd answers. The Store is
// closed by Close or with ctx.
func Open(ctx context.Context, c Config) (*Store, error) {
	if len(c.Endpoints) == 0 {
		return nil, errors.New("no etcd endpoint given")
	}
	for _, e := range c.Endpoints {
		if err := checkEndpoint(e); err != nil {
			return nil, err
		}
	}
	s := &Store{
		endpoints: append([]string(nil), c.Endpoints...),
		auth:      newAuth(c.User, c.Password),
		cert:      c.Cert,
		key:       c.Key,
		clients:   make([]*clientv3.Client, len(c.Endpoints)),
	}
	if c.CACert != "" || c.Cert != "" || c.Key != "" {
		info := transport.TLSInfo{TrustedCAFile: c.CACert, CertFile: c.Cert, KeyFile: c.Key}
		conf, err := info.ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrTLSFiles, err)
		}
		s.tls = conf
	}
	if err := s.checkPlain(c); err != nil {
		return nil, err
	}
	s.at.Store(rand.Int64N(int64(len(s.endpoints)))) // agents spread over the members
	context.AfterFunc(ctx, s.Close)
	return s, nil
}

// checkPlain refuses credentials that a TCP endpoint without TLS would show to the network, and
// files of TLS that it would not use.
func (s *Store) checkPlain(c Config) error {
	if c.User == "" && s.tls == nil {
		return nil
	}
	for i, e := range s.endpoints {
		if _, plain := s.plain(i); plain && !strings.HasPrefix(e, "unix:") {
			return fmt.Errorf("%s: %w", e, ErrPlain)
		}
	}
	return nil
}

// Quiet silences the log of gRPC, which is the process's and writes to
// stderr. Call it in main, before any connection is made.
func Quiet() { grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)) }

// Endpoints returns the endpoints as given.
func (s *Store) Endpoints() []string { return append([]string(nil), s.endpoints...) }

// Close ends all connections. Requests under way fail.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for i, c := range s.clients {
		if c != nil {
			c.Close()
		}
		s.clients[i] = nil
	}
}

// conn returns the connection to endpoint i. It does not wait for it.
func (s *Store) conn(i int) (*grpc.ClientConn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if s.clients[i] == nil {
		c, err := clientv3.New(clientv3.Config{
			Endpoints:            []string{s.endpoints[i]},
			TLS:                  s.tls,
			Logger:               zap.NewNop(),
			MaxUnaryRetries:      1, // this package decides about repeats
			DialKeepAliveTime:    pingAfter,
			DialKeepAliveTimeout: pingLimit,
			DialOptions: []grpc.DialOption{
				grpc.WithConnectParams(grpc.ConnectParams{
					Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
						MaxDelay: store.Again},
					MinConnectTimeout: connectLimit,
				}),
				grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
				grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(maxSend),
					grpc.MaxCallRecvMsgSize(math.MaxInt32)),
			},
		})
		if err != nil {
			return nil, fmt.Errorf("make client of %s: %w", s.endpoints[i], err)
		}
		s.clients[i] = c
	}
	return s.clients[i].ActiveConnection(), nil
}

func checkEndpoint(e string) error {
	scheme, rest, ok := strings.Cut(e, "://")
	if !ok {
		scheme, rest = "", e
	}
	switch scheme {
	case "unix", "unixs":
		if !strings.HasPrefix(rest, "/") {
			return fmt.Errorf("endpoint %q: the path of a socket starts with /", e)
		}
		return nil
	case "", "http", "https":
		if _, port, err := net.SplitHostPort(strings.TrimSuffix(rest, "/")); err != nil || port == "" {
			return fmt.Errorf("endpoint %q is not host:port", e)
		}
		return nil
	}
	return fmt.Errorf("endpoint %q: unknown scheme %q", e, scheme)
}
