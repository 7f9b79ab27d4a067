package coordinator

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// Streams knows the connections of clients, and ends their watches and
// keep-alives when the server is about to stop: etcd itself would wait five
// seconds for the clients to go.
type Streams struct {
	ctx   context.Context
	stop  context.CancelFunc
	conns atomic.Int64
	last  atomic.Int64 // when the number of connections changed, in unix nanoseconds
}

// NewStreams returns what has to be handed to a server before it starts.
func NewStreams() *Streams {
	ctx, cancel := context.WithCancel(context.Background())
	return &Streams{ctx: ctx, stop: cancel}
}

// Stop ends all streams. The clients are told "unavailable", so that they go
// on elsewhere, or later.
func (s *Streams) Stop() { s.stop() }

// Intercept is a grpc.StreamServerInterceptor.
func (s *Streams) Intercept(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	ctx, cancel := context.WithCancel(ss.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	err := next(srv, stream{ss, ctx})
	if s.ctx.Err() != nil {
		return status.Error(codes.Unavailable, "server is stopping")
	}
	return err
}

type stream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s stream) Context() context.Context { return s.ctx }

// HandleConn is called by gRPC for every connection that begins or ends.
func (s *Streams) HandleConn(_ context.Context, c stats.ConnStats) {
	switch c.(type) {
	case *stats.ConnBegin:
		s.conns.Add(1)
	case *stats.ConnEnd:
		s.conns.Add(-1)
	default:
		return
	}
	s.last.Store(time.Now().UnixNano())
}

func (s *Streams) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (s *Streams) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (s *Streams) HandleRPC(context.Context, stats.RPCStats)                         {}
