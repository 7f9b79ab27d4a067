// Package etcd is store.Store over a real etcd. It uses the connections of clientv3, but not its
// client.
//
// Each endpoint has a client of its own, connected at its first use, because the stock balancer
// does not notice a paused member. Every request has its own short limit, and then goes to the next
// endpoint. The endpoint that answers is kept. Renew renews a lease once per call. Watches prove
// that they are alive. A Store may be shared by any number of agents.
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

// Config says how to reach an etcd. With only Endpoints set, the etcd has no users and no TLS.
type Config struct {
	Endpoints []string // host:port, http(s)://host:port, unix:///path

	CACert, Cert, Key string // PEM files, as etcdctl's flags

	// TLS replaces the files. ErrOtherKey is the text of the error with which its VerifyConnection
	// refuses a server; "": it has none.
	TLS         *tls.Config
	ErrOtherKey string

	// OwnSocket: on a socket only a server of our own user is used.
	OwnSocket bool

	User     string // name, or name:password
	Password string // used when User has none
}

// A lost connection is made again at least every store.Again. The defaults of gRPC wait up to two
// minutes between attempts, and an agent would notice the return of etcd as late.
const (
	connectLimit = 3 * time.Second
	pingAfter    = 10 * time.Second // gRPC allows no less
	pingLimit    = 3 * time.Second
	maxSend      = 2 << 20 // above etcd's own limit of 1.5 MiB, so that etcd reports the error

	// A fixed window: to adapt it, gRPC would send a ping for each answer, which costs an idle
	// agent more than the answers do.
	window = 4 << 20
)

// Store is a store.Store over a real etcd.
type Store struct {
	endpoints []string
	tls       *tls.Config
	otherKey  string
	ownSocket bool
	auth      *auth
	cert, key string // client certificate; "": none

	at      atomic.Int64  // index of the endpoint that answered last
	cluster atomic.Uint64 // of the last read; 0: none yet

	mu      sync.Mutex // guards what follows
	clients []*clientv3.Client
	closed  bool
}

// Open returns a Store without connecting it: Probe says whether an etcd answers. Close, or the end
// of ctx, closes the Store.
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
		tls:       c.TLS,
		otherKey:  c.ErrOtherKey,
		ownSocket: c.OwnSocket,
		clients:   make([]*clientv3.Client, len(c.Endpoints)),
	}
	if c.TLS == nil && (c.CACert != "" || c.Cert != "" || c.Key != "") {
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
	s.at.Store(rand.Int64N(int64(len(s.endpoints)))) // spreads agents over the members
	context.AfterFunc(ctx, s.Close)
	return s, nil
}

// checkPlain returns an error if credentials would cross the network without TLS, or if TLS files
// are given and not used.
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

// Quiet turns off gRPC's log, which is global and writes to stderr. Call it in main, before any
// connection is made.
func Quiet() { grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)) }

// Endpoints returns the endpoints as given.
func (s *Store) Endpoints() []string { return append([]string(nil), s.endpoints...) }

// Close closes all connections. Requests under way fail.
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

// conn returns the connection to endpoint i, without waiting until it is up.
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
			MaxUnaryRetries:      1, // this package decides whether to repeat
			DialKeepAliveTime:    pingAfter,
			DialKeepAliveTimeout: pingLimit,
			DialOptions:          s.dialOptions(i),
		})
		if err != nil {
			return nil, fmt.Errorf("make client of %s: %w", s.endpoints[i], err)
		}
		s.clients[i] = c
	}
	return s.clients[i].ActiveConnection(), nil
}

func (s *Store) dialOptions(i int) []grpc.DialOption {
	options := []grpc.DialOption{
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
				MaxDelay: store.Again},
			MinConnectTimeout: connectLimit,
		}),
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(maxSend),
			grpc.MaxCallRecvMsgSize(math.MaxInt32)),
	}
	if path, ok := strings.CutPrefix(s.endpoints[i], "unix://"); ok && s.ownSocket {
		options = append(options, grpc.WithContextDialer(
			func(ctx context.Context, _ string) (net.Conn, error) { return dialOwn(ctx, path) }))
	}
	return options
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
