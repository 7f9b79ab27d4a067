package etcd

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// auth holds the token that stands for user and password. clientv3's own
// asks for a new one with every stream, that is with every renewal, and each
// costs etcd a bcrypt. A nil auth is that of an open etcd.
type auth struct {
	user, password string
	token          atomic.Pointer[string]
	turn           chan struct{} // held by the request that authenticates
}

func newAuth(user, password string) *auth {
	if user == "" {
		return nil
	}
	if password == "" {
		user, password, _ = strings.Cut(user, ":")
	}
	return &auth{user: user, password: password, turn: make(chan struct{}, 1)}
}

func (a *auth) current() string {
	if a == nil {
		return ""
	}
	if t := a.token.Load(); t != nil {
		return *t
	}
	return ""
}

func (a *auth) attach(ctx context.Context, token string) context.Context {
	if token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, token)
}

// begin takes a token before the first request. A server that knows its clients by their
// certificates does not ask for one, and would take this client for the user that its certificate
// names.
func (a *auth) begin(ctx context.Context, conn *grpc.ClientConn) error {
	if a == nil || a.token.Load() != nil {
		return nil
	}
	return a.renew(ctx, conn, "")
}

// renew takes a new token in place of old, unless another request did meanwhile.
func (a *auth) renew(ctx context.Context, conn *grpc.ClientConn, old string) error {
	ctx, cancel := context.WithTimeout(ctx, authLimit)
	defer cancel()
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if a.current() != old {
		return nil
	}
	res, err := pb.NewAuthClient(conn).Authenticate(ctx,
		&pb.AuthenticateRequest{Name: a.user, Password: a.password})
	err = classify(err)
	if err != nil && !errors.Is(err, rpctypes.ErrAuthNotEnabled) {
		return err
	}
	token := res.GetToken()
	a.token.Store(&token)
	return nil
}
