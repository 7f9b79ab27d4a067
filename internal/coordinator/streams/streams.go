// Package streams ends the streams of an etcd server that stops.
package streams

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/elasticd/elastic/internal/scope"
)

// Streams ends the watches and keep-alives of a server that stops. Otherwise etcd usually waits
// five seconds until the clients close them.
type Streams struct{ scope scope.Scope }

// New returns the Streams of one server. The server must be created with Intercept as an
// option.
func New() *Streams { return new(Streams) }

// Stop ends all streams with the code "unavailable". The clients then use another server, or try
// again later.
func (s *Streams) Stop() { s.scope.End() }

// Intercept is a grpc.StreamServerInterceptor.
func (s *Streams) Intercept(
	srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler,
) error {
	ctx, cancel := s.scope.Context(ss.Context())
	defer cancel()
	err := next(srv, stream{ss, ctx})
	if s.scope.Ended() {
		return status.Error(codes.Unavailable, "server is stopping")
	}
	return err
}

// stream is a gRPC stream with a context that Streams can end.
type stream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s stream) Context() context.Context { return s.ctx }
