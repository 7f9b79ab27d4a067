package coordinator

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/stats"
)

// conns counts the connections of clients. It implements stats.Handler of gRPC.
type conns struct {
	open atomic.Int64
	last atomic.Int64 // when a connection began or ended, in Unix nanoseconds
}

func (c *conns) HandleConn(_ context.Context, s stats.ConnStats) {
	switch s.(type) {
	case *stats.ConnBegin:
		c.open.Add(1)
	case *stats.ConnEnd:
		c.open.Add(-1)
	default:
		return
	}
	c.last.Store(time.Now().UnixNano())
}

func (*conns) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*conns) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*conns) HandleRPC(context.Context, stats.RPCStats)                         {}
