package etcd_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"

	"github.com/elasticd/elastic/internal/etcdtest"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/etcd"
)

func TestProbe(t *testing.T) {
	t.Parallel()
	notFound := http.HandlerFunc(http.NotFound)
	web := httptest.NewServer(notFound)
	defer web.Close()
	web2 := httptest.NewUnstartedServer(notFound)
	web2.Config.Protocols = new(http.Protocols)
	web2.Config.Protocols.SetUnencryptedHTTP2(true)
	web2.Start()
	defer web2.Close()
	webTLS := httptest.NewUnstartedServer(notFound)
	webTLS.EnableHTTP2 = true
	webTLS.Config.ErrorLog = log.New(io.Discard, "", 0)
	webTLS.StartTLS()
	defer webTLS.Close()
	other := listen(t)
	rpc := grpc.NewServer()
	served := make(chan error, 1)
	go func() { served <- rpc.Serve(other) }()
	defer func() { rpc.Stop(); <-served }()

	server := etcdtest.Start(t, etcdtest.TCP())
	host := strings.TrimPrefix(server.Endpoint(), "http://")
	for name, c := range map[string]struct {
		endpoints []string
		want      error
	}{
		"etcd":                     {server.Endpoints(), nil},
		"etcd without a scheme":    {[]string{host}, nil},
		"no server":                {[]string{refusing(t)}, etcd.ErrUnreachable},
		"no socket":                {[]string{"unix:///none.sock"}, etcd.ErrUnreachable},
		"no such host":             {[]string{"host.invalid:2379"}, etcd.ErrUnreachable},
		"silence":                  {[]string{silent(t)}, etcd.ErrUnreachable},
		"one that dies":            {[]string{dying(t)}, etcd.ErrUnreachable},
		"a web server":             {[]string{web.URL}, etcd.ErrNotEtcd},
		"a web server of HTTP/2":   {[]string{web2.URL}, etcd.ErrNotEtcd},
		"a TLS server":             {[]string{webTLS.Listener.Addr().String()}, etcd.ErrWantsTLS},
		"a TLS server that resets": {[]string{rude(t, webTLS.TLS)}, etcd.ErrWantsTLS},
		"an unknown certificate":   {[]string{webTLS.URL}, etcd.ErrAuth},
		"etcd without TLS":         {[]string{"https://" + host}, etcd.ErrNotEtcd},
		"another gRPC server":      {[]string{other.Addr().String()}, etcd.ErrNotEtcd},
		"one of several":           {[]string{refusing(t), web.URL, server.Endpoint()}, nil},
		"the most telling":         {[]string{refusing(t), web.URL}, etcd.ErrNotEtcd},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, etcd.Config{Endpoints: c.endpoints})
			if err := s.Probe(t.Context()); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// rude is a TLS server that resets the connection of a client that speaks another protocol.
func rude(t *testing.T, conf *tls.Config) string {
	l := listen(t)
	serve := func(c net.Conn) {
		defer c.Close()
		r := bufio.NewReader(c)
		if first, err := r.Peek(1); err != nil || first[0] != 0x16 {
			c.(*net.TCPConn).SetLinger(0)
			return
		}
		tls.Server(read{c, r}, conf).Handshake()
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return l.Addr().String()
}

// read is a connection whose first bytes were looked at.
type read struct {
	net.Conn
	from io.Reader
}

func (r read) Read(p []byte) (int, error) { return r.from.Read(p) }

// dying is a server that is killed whenever it was reached: what it had not read yet resets the
// connection.
func dying(t *testing.T) string {
	l := listen(t)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.(*net.TCPConn).SetLinger(0)
			c.Close()
		}
	}()
	return l.Addr().String()
}

func TestProbeWithoutQuorum(t *testing.T) {
	t.Parallel()
	members := etcdtest.StartCluster(t, 3)
	s := open(t, etcd.Config{Endpoints: members.Endpoints()})
	members[0].Stop()
	members[1].Stop()
	if err := s.Probe(t.Context()); !errors.Is(err, etcd.ErrNoQuorum) {
		t.Errorf("%v, want ErrNoQuorum", err)
	}
	if _, _, err := s.Grant(t.Context(), time.Minute); err == nil || store.Refused(err) {
		t.Errorf("grant: %v", err)
	}
}

func TestConfig(t *testing.T) {
	for _, bad := range [][]string{nil, {""}, {"host"}, {"host:"}, {"unix://relative"}, {"ftp://host:1"},
		{"ok:1", "bad"}} {
		if s, err := etcd.Open(t.Context(), etcd.Config{Endpoints: bad}); err == nil {
			s.Close()
			t.Errorf("endpoints %q were taken", bad)
		}
	}
	if s, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{"[::1]:2379"},
		CACert: "/no/such/file"}); err == nil {
		s.Close()
		t.Error("a certificate that does not exist was taken")
	}
}

func TestLimits(t *testing.T) {
	server := etcdtest.Start(t, etcdtest.Config(func(c *embed.Config) { c.QuotaBackendBytes = 16 << 20 }))
	s := open(t, etcd.Config{Endpoints: server.Endpoints()})
	for _, size := range []int{1600 << 10, 3 << 20} {
		if _, err := s.Txn(t.Context(), put("/big", strings.Repeat("x", size))); !store.Refused(err) {
			t.Errorf("%d bytes: %v, want a refusal", size, err)
		}
	}
	lease, _, err := s.Grant(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	mega := strings.Repeat("x", 1<<20)
	n := 0
	for ; ; n++ { // a megabyte each until it is full
		_, err := s.Txn(t.Context(), put("/big/"+string(rune('a'+n)), mega))
		if err == nil {
			continue
		}
		if store.Refused(err) || !strings.Contains(err.Error(), "space") {
			t.Fatalf("a full store: %v, refused: %v; it may be given space", err, store.Refused(err))
		}
		break
	}
	// The last one may have been applied as well: that is why it is not refused.
	if r, err := s.Get(t.Context(), "/big/", store.End("/big/")); err != nil || len(r.Entries) < n || n < 5 {
		t.Errorf("read of at least %d entries of a megabyte: %d, %v", n, len(r.Entries), err)
	}
	if _, _, err := s.Grant(t.Context(), time.Minute); err == nil || store.Refused(err) {
		t.Errorf("grant of a full store: %v", err)
	}
	if err := s.Renew(t.Context(), lease); err != nil {
		t.Errorf("renewal: %v", err)
	}
	if _, err := s.Txn(t.Context(), store.Txn{Then: []store.Write{store.DeleteRange("/big/",
		store.End("/big/"))}}); err != nil {
		t.Errorf("delete: %v", err)
	}
}

func TestUsers(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t,
		etcdtest.Config(func(c *embed.Config) { c.AuthTokenTTL, c.BcryptCost = 1, 4 }))
	admin := server.Client(t)
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(admin.UserAdd(t.Context(), "root", "secret"))
	must(admin.UserGrantRole(t.Context(), "root", "root"))
	must(admin.UserAdd(t.Context(), "trainer", "pass:word"))
	must(admin.RoleAdd(t.Context(), "elastic"))
	must(admin.RoleGrantPermission(t.Context(), "elastic", schema.Root, store.End(schema.Root),
		clientv3.PermissionType(clientv3.PermReadWrite)))
	must(admin.UserGrantRole(t.Context(), "trainer", "elastic"))

	given := etcd.Config{Endpoints: server.Endpoints(), User: "trainer", Password: "pass:word"}
	s := open(t, given)
	must(s.Txn(t.Context(), put(schema.Root+"before", "1"))) // etcd does not ask yet
	must(admin.AuthEnable(t.Context()))

	for name, c := range map[string]etcd.Config{
		"no server":      {Endpoints: server.Endpoints()},
		"wrong password": {Endpoints: server.Endpoints(), User: "trainer", Password: "word"},
		"wrong user":     {Endpoints: server.Endpoints(), User: "stranger", Password: "pass:word"},
	} {
		s := open(t, c)
		if err := s.Probe(t.Context()); !errors.Is(err, etcd.ErrAuth) {
			t.Errorf("%s: probe: %v", name, err)
		}
		if _, err := s.Txn(t.Context(), put(schema.Root+"x", "1")); !store.Refused(err) {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
	together := open(t, etcd.Config{Endpoints: server.Endpoints(), User: "trainer:pass:word"})
	if err := together.Probe(t.Context()); err != nil {
		t.Error(err)
	}

	if _, err := s.Txn(t.Context(), put("/elsewhere", "1")); !store.Refused(err) {
		t.Errorf("write without the right: %v, want a refusal", err)
	}
	lease, _, err := s.Grant(t.Context(), time.Minute)
	must(nil, err)
	must(s.Txn(t.Context(),
		store.Txn{Then: []store.Write{store.PutLeased(schema.Root+"j/node", []byte("1"), lease)}}))
	r, err := s.Get(t.Context(), schema.Root, store.End(schema.Root))
	must(r, err)

	// Tokens run out, also under a watch that is older than they are.
	changes := s.Watch(t.Context(), schema.Root, store.End(schema.Root), r.Rev+1)
	<-changes
	for i := range 3 {
		<-time.After(2500 * time.Millisecond)
		switch i {
		case 0:
			must(nil, s.Renew(t.Context(), lease))
		case 1:
			must(s.Get(t.Context(), schema.Root, ""))
		case 2:
			server.Stop()
			server.Restart(t)
		}
	}
	must(store.Send(t.Context(), s, store.Request{Then: put(schema.Root+"j/last", "1").Then}))
	for c := range changes {
		if c.Err != nil {
			t.Fatal(c.Err)
		}
		if len(c.Events) > 0 {
			break
		}
	}
}
