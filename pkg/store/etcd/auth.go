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

// auth holds the token that replaces user and password. clientv3 would get a new one for every
// stream, so for every renewal, and each costs etcd a bcrypt. A nil auth is for an etcd without
// users.
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

// begin gets a token before the first request. A server that identifies clients by their
// certificates would not ask for a token, and would use the user of the certificate instead.
func (a *auth) begin(ctx context.Context, conn *grpc.ClientConn) error {
	if a == nil || a.token.Load() != nil {
		return nil
	}
	return a.renew(ctx, conn, "")
}

// renew replaces the token old, unless another request has done so.
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
