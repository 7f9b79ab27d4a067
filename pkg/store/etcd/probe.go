package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/elasticd/elastic/pkg/schema"
)

// Probe reads once from each endpoint until one answers. If none does, it returns the most specific
// of ErrAuth, ErrNoQuorum, ErrNotEtcd and ErrUnreachable.
func (s *Store) Probe(ctx context.Context) error {
	var worst error
	rank := 0
	for range s.endpoints {
		at := s.at.Load()
		sent, err := s.try(clientv3.WithRequireLeader(ctx), int(at), requestLimit, countRoot(linearizable))
		if err == nil || errors.Is(err, rpctypes.ErrPermissionDenied) {
			return nil // a user that may not read all jobs may still read one
		}
		if r, verdict := s.judge(ctx, attempt{int(at), sent, err}); r > rank {
			rank, worst = r, fmt.Errorf("%s: %w: %w", s.endpoints[at], verdict, err)
		}
		s.leave(at)
	}
	return worst
}

// ownExpired reports whether the client certificate is not valid now, by the clock of this machine.
func (s *Store) ownExpired() bool {
	pair, err := tls.LoadX509KeyPair(s.cert, s.key)
	now := time.Now()
	return err == nil && (now.After(pair.Leaf.NotAfter) || now.Before(pair.Leaf.NotBefore))
}

// attempt is one failed request to one endpoint.
type attempt struct {
	endpoint int
	sent     bool // the request may have reached etcd
	err      error
}

// judge returns the error of an endpoint and its rank: the higher, the more specific.
func (s *Store) judge(ctx context.Context, a attempt) (int, error) {
	at, sent, err := a.endpoint, a.sent, a.err
	var word rpctypes.EtcdError
	switch text := err.Error() + s.handshake(ctx, at); {
	case authFailed(err):
		return 4, ErrAuth
	case s.otherKey != "" && strings.Contains(text, s.otherKey):
		return 4, ErrOtherKey
	case strings.Contains(text, errOtherUser):
		return 4, ErrOtherUser
	case s.otherKey != "" && strings.Contains(text, "first record does not look like a TLS handshake"):
		return 2, ErrNoTLS
	case strings.Contains(text, "certificate"): // the server's or the client's
		verdict := certificate(text)
		if errors.Is(verdict, ErrCertRefused) && s.ownExpired() {
			verdict = ErrCertExpired
		}
		return 4, verdict
	case !sent && (strings.Contains(text, "deadline exceeded") || strings.Contains(text, "i/o timeout")):
		return 1, ErrUnreachable
	case !sent && strings.Contains(text, "use of closed network connection"):
		return 1, ErrUnreachable // no answer within the limit
	case !sent && s.wantsTLS(ctx, at): // it may say so, hang up or reset the connection
		return 2, ErrWantsTLS
	case !sent && strings.Contains(text, "connection reset by peer"):
		return 1, ErrUnreachable // it died without an answer
	case !sent && (strings.Contains(text, "error reading server preface") ||
		strings.Contains(text, "handshake failed")):
		return 2, ErrNotEtcd
	case !sent:
		return 1, ErrUnreachable
	case errors.As(err, &word):
	case status.Code(err) == codes.Unimplemented, status.Code(err) == codes.Unknown,
		strings.Contains(text, "unexpected HTTP status"):
		return 2, ErrNotEtcd
	}
	if _, err := s.try(ctx, at, renewLimit, countRoot(serializable)); err == nil {
		return 3, ErrNoQuorum
	}
	return 1, ErrUnreachable
}

// plain reports whether an endpoint is dialled without TLS, and its address.
func (s *Store) plain(at int) (address string, plain bool) {
	scheme, address, ok := strings.Cut(s.endpoints[at], "://")
	if !ok {
		scheme, address = "", s.endpoints[at]
	}
	plain = scheme == "http" || scheme == "unix" || s.tls == nil && scheme != "https"
	return strings.TrimSuffix(address, "/"), plain
}

// wantsTLS reports whether an endpoint that was dialled without TLS speaks TLS, with gRPC. It sends
// no data, so it need not trust the endpoint.
func (s *Store) wantsTLS(ctx context.Context, at int) bool {
	address, plain := s.plain(at)
	if !plain || strings.HasPrefix(s.endpoints[at], "unix:") {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, renewLimit)
	defer cancel()
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}}).
		DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().NegotiatedProtocol == "h2"
}

// handshake returns the TLS error of an endpoint; "" if there is none. In TLS 1.3 a server refuses
// the client certificate only after the handshake, and a client that is writing may miss the
// reason.
func (s *Store) handshake(ctx context.Context, at int) string {
	address, plain := s.plain(at)
	if plain {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, renewLimit)
	defer cancel()
	conf := &tls.Config{}
	if s.tls != nil {
		conf = s.tls.Clone()
	}
	conf.NextProtos = []string{"h2"}
	conn, err := (&tls.Dialer{Config: conf}).DialContext(ctx, "tcp", address)
	if err == nil {
		defer conn.Close()
		conn.SetReadDeadline(time.Now().Add(renewLimit))
		_, err = conn.Read(make([]byte, 1))
	}
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) || ctx.Err() != nil {
		return ""
	}
	return err.Error()
}

// consistency says which members can answer a read.
type consistency int

const (
	linearizable consistency = iota // only with a majority
	serializable                    // any member, alone too
)

// countRoot is a request that reads almost nothing.
func countRoot(c consistency) request {
	serial := c == serializable
	return func(ctx context.Context, c *grpc.ClientConn, o ...grpc.CallOption) error {
		r := &pb.RangeRequest{Key: []byte(schema.Root), CountOnly: true, Serializable: serial}
		_, err := pb.NewKVClient(c).Range(ctx, r, o...)
		return err
	}
}

// Listens reports whether something accepts connections at an endpoint.
func Listens(ctx context.Context, endpoint string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	network, address := "tcp", endpoint
	if _, rest, ok := strings.Cut(endpoint, "://"); ok {
		address = strings.TrimSuffix(rest, "/")
	}
	if strings.HasPrefix(endpoint, "unix:") {
		network, address = "unix", strings.TrimPrefix(strings.TrimPrefix(endpoint, "unix:"), "//")
	}
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return false
	}
	c.Close()
	return true
}
