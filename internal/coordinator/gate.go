package coordinator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"strings"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/elasticd/elastic/internal/certs"
)

// gate decides which connections of clients are served, where no certificate files do. On a socket
// the client must be a process of our user, or of root. On TCP it must know the token, if there is
// one.
type gate struct {
	credentials.TransportCredentials // of TCP
	user                             int
}

func newGate(t certs.Token) (gate, error) {
	g := gate{TransportCredentials: insecure.NewCredentials(), user: os.Geteuid()}
	if t == "" {
		return g, nil
	}
	conf, err := t.Server()
	if err != nil {
		return g, fmt.Errorf("keys of the token: %w", err)
	}
	g.TransportCredentials = credentials.NewTLS(conf)
	return g, nil
}

// ServerHandshake implements credentials.TransportCredentials.
func (g gate) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if c.LocalAddr().Network() != "unix" {
		return g.TransportCredentials.ServerHandshake(c)
	}
	if err := checkPeer(c, g.user); err != nil {
		return nil, nil, err
	}
	return insecure.NewCredentials().ServerHandshake(c)
}

// Clone implements credentials.TransportCredentials.
func (g gate) Clone() credentials.TransportCredentials {
	return gate{g.TransportCredentials.Clone(), g.user}
}

// checkPeer fails if the process at the other end of a socket is another user's.
func checkPeer(c net.Conn, user int) error {
	socket, ok := unwrap(c).(*net.UnixConn)
	if !ok {
		return errors.New("whose connection it is cannot be found out")
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("ask whose connection it is: %w", err)
	}
	if uid := int(peer.Uid); uid != user && uid != 0 {
		return fmt.Errorf("process %d is of user %d, and this server is of user %d", peer.Pid, uid, user)
	}
	return nil
}

// unwrap returns the connection inside that of etcd's limit of connections, whose type is not
// exported.
func unwrap(c net.Conn) net.Conn {
	v := reflect.ValueOf(c)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return c
	}
	if inner := v.Elem().FieldByName("Conn"); inner.IsValid() && inner.CanInterface() {
		if conn, ok := inner.Interface().(net.Conn); ok {
			return conn
		}
	}
	return c
}

// refuses returns an interceptor for requests that would take the server away from its owner.
// One more member that does not exist would end the majority of a single member for good. A server
// that "elastic run" started has no users of etcd either: the first one could lock out all others.
func (c Config) refuses() grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
	) (any, error) {
		if err := c.refusal(info.FullMethod); err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
}

func (c Config) refusal(method string) error {
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/etcdserverpb."), "/")
	switch {
	case service == "Cluster" && name != "MemberList" && c.single() && !c.AllowMembership:
		return status.Errorf(codes.PermissionDenied, "elasticd: this server has one member, and %s would "+
			"end its majority; start it with --allow-membership if that is meant", name)
	case c.Own && (service == "Auth" && name != "Authenticate" && name != "AuthStatus" ||
		service == "Maintenance" && (name == "Alarm" || name == "Downgrade" || name == "MoveLeader")):
		return status.Errorf(codes.PermissionDenied, "elasticd: %s is refused: elastic run started this "+
			"server for its nodes; start an elasticd for that", name)
	}
	return nil
}
