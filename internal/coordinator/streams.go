package coordinator

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Streams ends the watches and keep-alives of a server that is about to stop:
// etcd itself waits five seconds for their clients to go, most times.
type Streams struct {
	ctx  context.Context
	stop context.CancelFunc
}

// NewStreams returns what has to be handed to a server before it starts.
func NewStreams() *Streams {
	ctx, cancel := context.WithCancel(context.Background())
	return &Streams{ctx, cancel}
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
