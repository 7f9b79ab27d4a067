package coordinator

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/elasticd/elastic/internal/certs"
)

const nobody = 65534

// asNobody dials a socket as another user. Only root can; the thread ends with the goroutine.
func asNobody(ctx context.Context, path string) (net.Conn, error) {
	type result struct {
		net.Conn
		err error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread()
		if _, _, err := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); err != 0 {
			done <- result{nil, err}
			return
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
		}
		if err != nil {
			done <- result{nil, err}
			return
		}
		f := os.NewFile(uintptr(fd), path)
		defer f.Close()
		c, err := net.FileConn(f)
		done <- result{c, err}
	}()
	r := <-done
	return r.Conn, r.err
}

// A client on a socket must be a process of the server's user, whatever the permissions of the
// socket say.
func TestSocketServesItsUserOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("only root can be another user")
	}
	m := begin(t, alone(t))
	path := m.cfg.ListenClients[0].Path
	for p, mode := range map[string]os.FileMode{path: 0o666, filepath.Dir(path): 0o755} {
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
	}
	read := func(dial func(context.Context, string) (net.Conn, error)) error {
		c, err := clientv3.New(clientv3.Config{Endpoints: m.URLs(), Logger: zap.NewNop(),
			DialOptions: []grpc.DialOption{grpc.WithContextDialer(
				func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx, path) })}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err = c.Get(ctx, "k")
		return err
	}
	own := func(ctx context.Context, path string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	if err := read(own); err != nil {
		t.Errorf("its own user: %v", err)
	}
	if err := read(asNobody); err == nil || ctxOnly(err) {
		t.Errorf("another user: %v", err)
	}
}

// ctxOnly reports whether err says that nobody answered, and nothing of a refusal.
func ctxOnly(err error) bool {
	return strings.Contains(err.Error(), "no such file") || strings.Contains(err.Error(), "permission denied")
}

// A server with a token serves those that know it, and no other.
func TestTokenOnTCP(t *testing.T) {
	token := certs.NewToken()
	c := alone(t)
	c.Secret, c.ListenClients = token, []url.URL{{Scheme: "http", Host: "127.0.0.1:" + free(t)}}
	m := begin(t, c)
	at := m.cfg.ListenClients[0].Host
	read := func(t *testing.T, scheme string, conf *tls.Config) error {
		t.Helper()
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{scheme + "://" + at}, TLS: conf,
			Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err = c.Get(ctx, "k")
		return err
	}
	settings := func(t certs.Token) *tls.Config {
		conf, err := t.Client()
		if err != nil {
			panic(err)
		}
		return conf
	}
	if err := read(t, "https", settings(token)); err != nil {
		t.Errorf("with the token: %v", err)
	}
	for _, c := range []struct {
		client, scheme string
		conf           *tls.Config
	}{
		{"of another token", "https", settings(certs.NewToken())},
		{"without a token", "https", &tls.Config{InsecureSkipVerify: true}},
		{"without TLS", "http", nil},
	} {
		t.Run(c.client, func(t *testing.T) {
			t.Parallel() // each tries for 10 seconds
			if err := read(t, c.scheme, c.conf); err == nil {
				t.Error("the client is served")
			}
		})
	}
}

// What no client may do to a server, by the kind of server.
func TestRefusedRequests(t *testing.T) {
	three := Config{InitialCluster: "a=http://a:1,b=http://b:1,c=http://c:1"}
	for _, c := range []struct {
		config Config
		method string
		served bool
	}{
		{Config{}, "Cluster/MemberAdd", false}, {Config{}, "Cluster/MemberRemove", false},
		{Config{}, "Cluster/MemberUpdate", false}, {Config{}, "Cluster/MemberPromote", false},
		{Config{}, "Cluster/MemberList", true}, {Config{AllowMembership: true}, "Cluster/MemberAdd", true},
		{three, "Cluster/MemberAdd", true}, {Config{Existing: true}, "Cluster/MemberAdd", true},
		{Config{}, "Auth/AuthEnable", true}, {Config{}, "Maintenance/Alarm", true},
		{Config{Own: true}, "Auth/AuthEnable", false}, {Config{Own: true}, "Auth/UserAdd", false},
		{Config{Own: true}, "Auth/Authenticate", true}, {Config{Own: true}, "Maintenance/Alarm", false},
		{Config{Own: true}, "Maintenance/Downgrade", false}, {Config{Own: true}, "KV/Txn", true},
		{Config{Own: true}, "Maintenance/Status", true},
	} {
		if err := c.config.refusal("/etcdserverpb." + c.method); (err == nil) != c.served {
			t.Errorf("%s of %+v: %v", c.method, c.config, err)
		}
	}
}

// One request from anywhere could end a single member for good. It is refused, and a server that
// has lost its majority comes back alone.
func TestSingleMemberKeepsItsMajority(t *testing.T) {
	c := alone(t)
	m := begin(t, c)
	if _, err := dial(t, m).MemberAdd(t.Context(), []string{"http://127.0.0.1:1"}); err == nil {
		t.Fatal("a member that does not exist was added")
	}
	if _, err := dial(t, m).Put(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	m.Close()

	c.AllowMembership = true
	m = begin(t, c)
	if _, err := dial(t, m).MemberAdd(t.Context(), []string{"http://127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	m.Close()

	c.AllowMembership, c.Alone = false, true
	m = begin(t, c)
	r, err := dial(t, m).Get(t.Context(), "k")
	if err != nil || len(r.Kvs) != 1 || string(r.Kvs[0].Value) != "v" {
		t.Errorf("what was written before: %v, %v", r, err)
	}
}
