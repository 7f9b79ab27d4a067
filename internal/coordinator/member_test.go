package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/schema"
)

// alone is a member without a network, quick to start.
func alone(t *testing.T) Config {
	t.Helper()
	dir, err := os.MkdirTemp("", "member") // short: the path of a socket has a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return Config{Name: "a", Dir: filepath.Join(dir, "data"), Heartbeat: 10 * time.Millisecond,
		ListenClients: []url.URL{{Scheme: "unix", Path: filepath.Join(dir, "sock")}}}
}

func begin(t *testing.T, c Config) *Member {
	t.Helper()
	m, err := Start(c)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		if m.dir.lock.Fd() != ^uintptr(0) {
			m.Close()
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := m.Ready(ctx); err != nil {
		t.Fatalf("ready: %v", err)
	}
	return m
}

func dial(t *testing.T, m *Member) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: m.URLs(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func cluster(t *testing.T, m *Member) uint64 {
	t.Helper()
	r, err := m.client.Get(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.ClusterId
}

func TestDataDirectoryIsHeldOnce(t *testing.T) {
	c := alone(t)
	m := begin(t, c)
	second := c
	second.ListenClients = []url.URL{{Scheme: "unix", Path: c.ListenClients[0].Path + "2"}}
	if _, err := Start(second); !refused(err, problem.DataDir, "in use by") {
		t.Fatalf("a second server on the data: %v", err)
	}
	m.Close()
	begin(t, second)
}

// refused reports whether err is an error for the user with a code and a text in it.
func refused(err error, c problem.Code, text string) bool {
	return problem.Is(err, c) && strings.Contains(err.Error(), text)
}

func TestDataOfARunningEtcd(t *testing.T) {
	e := embed.NewConfig()
	e.Dir, e.ListenPeerUrls = t.TempDir(), nil
	e.ListenClientUrls = alone(t).ListenClients
	e.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	etcd, err := embed.StartEtcd(e)
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	<-etcd.Server.ReadyNotify()
	c := alone(t)
	c.Dir = e.Dir
	if _, err := Start(c); !refused(err, problem.DataDir, "in use by") {
		t.Fatalf("a member on the data of a running etcd: %v", err)
	}
}

func TestDataOfAnotherMember(t *testing.T) {
	c := alone(t)
	c.Token = "one"
	m := begin(t, c)
	was := cluster(t, m)
	m.Close()
	for name, change := range map[string]func(*Config){
		"name":  func(c *Config) { c.Name = "b" },
		"token": func(c *Config) { c.Token = "two" },
	} {
		other := c
		change(&other)
		if _, err := Start(other); !refused(err, problem.DataDir, "belongs to") {
			t.Errorf("another %s: %v", name, err)
		}
	}
	unnamed := c // a host that was renamed goes on as the member that it is
	unnamed.Name, unnamed.Token = "", ""
	m = begin(t, unnamed)
	if m.cfg.Name != "a" || cluster(t, m) != was {
		t.Errorf("without a name: member %s of cluster %x, want a of %x", m.cfg.Name, cluster(t, m), was)
	}
}

// Agents tell a store that was wiped from the one they knew by its cluster id.
func TestWipedStoreIsAnotherCluster(t *testing.T) {
	c := alone(t)
	m := begin(t, c)
	was := cluster(t, m)
	m.Close()
	if m := begin(t, c); cluster(t, m) != was {
		t.Error("another cluster after a restart")
	} else {
		m.Close()
	}
	for _, wiped := range []string{c.Dir, filepath.Join(c.Dir, "member")} {
		if err := os.RemoveAll(wiped); err != nil {
			t.Fatal(err)
		}
		m := begin(t, c)
		if is := cluster(t, m); is == was {
			t.Errorf("the same cluster without %s", wiped)
		} else {
			was = is
		}
		m.Close()
	}
	if m := begin(t, c); cluster(t, m) != was {
		t.Error("another cluster after the restart that follows")
	}
}

// Without its log a database is refused: etcd would take it, and never be ready.
func TestDataWithoutItsLog(t *testing.T) {
	for name, remove := range map[string]func(wal string) error{
		"no directory": os.RemoveAll,
		"an empty one": func(wal string) error {
			return errors.Join(os.RemoveAll(wal), os.Mkdir(wal, 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := alone(t)
			begin(t, c).Close()
			wal := filepath.Join(c.Dir, "member", "wal")
			if err := remove(wal); err != nil {
				t.Fatal(err)
			}
			m, err := Start(c)
			if err == nil {
				m.Close()
			}
			p, ok := errors.AsType[*problem.Error](err)
			if !ok || p.Code != problem.DataDir || !strings.Contains(p.Message, wal) || p.Why == "" ||
				!strings.Contains(p.Fix, wal) {
				t.Fatalf("%v (%+v), want what is missing, why and what to do", err, p)
			}
			if err := os.RemoveAll(filepath.Join(c.Dir, "member")); err != nil { // as the fix says
				t.Fatal(err)
			}
			begin(t, c)
		})
	}
}

func TestBusyPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	busy := url.URL{Scheme: "http", Host: l.Addr().String()}
	for name, change := range map[string]func(*Config){
		"clients": func(c *Config) { c.ListenClients = []url.URL{busy} },
		"peers":   func(c *Config) { c.Insecure, c.ListenPeers = true, []url.URL{busy} },
	} {
		c := alone(t)
		change(&c)
		_, err := Start(c)
		if !refused(err, problem.Listen, l.Addr().String()) {
			t.Errorf("busy port for %s: %v", name, err)
		}
		c.ListenPeers, c.ListenClients = nil, alone(t).ListenClients
		m := begin(t, c) // what failed gave the directory back
		m.Close()
	}
	if _, err := (Config{Insecure: true}).ListenHTTP(l.Addr().String()); !problem.Is(err, problem.Listen) {
		t.Errorf("busy port for http: %v", err)
	}
}

// A disk without space is reported as one, and not as data or settings that etcd refuses.
func TestFullDiskHasItsFix(t *testing.T) {
	for _, errno := range []unix.Errno{unix.ENOSPC, unix.EDQUOT} {
		cause := &fs.PathError{Op: "write", Path: "/data/member/wal", Err: errno}
		for _, err := range []error{startError(fmt.Errorf("etcd: %w", cause)),
			dirError("lock data directory", cause)} {
			var p *problem.Error
			if !errors.As(err, &p) || p.Code != problem.DataDir ||
				!strings.HasPrefix(p.Fix, "make space on that disk") {
				t.Errorf("%v: %+v", err, p)
			}
		}
	}
	var p *problem.Error
	if err := startError(errors.New("etcd: wal: crc mismatch")); !errors.As(err, &p) ||
		strings.Contains(p.Fix, "space") {
		t.Errorf("damaged data: %+v", p)
	}
}

func TestRefusedSettings(t *testing.T) {
	all := func(list string) []url.URL {
		u, err := ParseURLs(list)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	cert, key := certificate(t, t.TempDir())
	for name, c := range map[string]struct {
		cfg  Config
		code problem.Code
	}{
		"clients without TLS": {Config{ListenClients: all("http://0.0.0.0:2379")}, problem.Listen},
		"peers without TLS":   {Config{ListenPeers: all("http://[::]:2380")}, problem.Listen},
		"one of several": {Config{ListenClients: all("unix:///s,http://10.1.2.3:2379")},
			problem.Listen},
		"loopback":          {Config{ListenClients: all("http://127.0.0.1:2379")}, problem.Listen},
		"peers on loopback": {Config{ListenPeers: all("http://127.0.0.1:2380")}, problem.Listen},
		"peers of a cluster by default": {Config{Name: "a", InitialCluster: "a=http://127.0.0.1:2380"},
			problem.Listen},
		"clients with TLS and no CA": {Config{Clients: TLS{Cert: cert, Key: key},
			ListenClients: all("https://0.0.0.0:2379")}, problem.Listen},
		"peers with TLS and no CA": {Config{Peers: TLS{Cert: cert, Key: key},
			ListenPeers: all("https://0.0.0.0:2380")}, problem.Listen},
		"a certificate alone":          {Config{Clients: TLS{Cert: cert, Key: key}}, problem.Listen},
		"a socket without permissions": {Config{ListenClients: all("unix://@abstract")}, problem.Usage},
		"a relative socket":            {Config{ListenClients: all("unix://sock")}, problem.Usage},
		"a socket with a long path": {Config{ListenClients: all("unix:///" + strings.Repeat("x", 107))},
			problem.Listen},
		"a name that merges members": {Config{Name: "default"}, problem.Usage},
		"not in the cluster": {Config{Name: "x", InitialCluster: "a=http://127.0.0.1:2380"},
			problem.Usage},
		"a cluster that is none":     {Config{Name: "x", InitialCluster: "a"}, problem.Usage},
		"a certificate without key":  {Config{Clients: TLS{Cert: cert}}, problem.Usage},
		"a certificate that is none": {Config{Peers: TLS{Cert: key, Key: key}}, problem.Usage},
		"a certificate that nothing uses": {Config{Clients: TLS{Cert: cert, Key: key, CA: cert},
			ListenClients: all("http://127.0.0.1:2379")}, problem.Usage},
		"https without a certificate": {Config{ListenClients: all("https://127.0.0.1:2379")}, problem.Usage},
		"client certificates without an authority": {
			Config{Clients: TLS{Cert: cert, Key: key, ClientAuth: true}}, problem.Usage},
		"an authority that is none":        {Config{Clients: TLS{Cert: cert, Key: key, CA: key}}, problem.Usage},
		"an authority without certificate": {Config{Clients: TLS{CA: cert}}, problem.Usage},
		"an election without heartbeats":   {Config{Heartbeat: time.Second, Election: time.Second}, problem.Usage},
		"a socket":                         {Config{ListenClients: all("unix:///s")}, ""},
		"open, and said so": {Config{ListenClients: all("http://0.0.0.0:2379"),
			Insecure: true}, ""},
		"TLS for all, and said so": {Config{Clients: TLS{Cert: cert, Key: key},
			ListenClients: all("https://0.0.0.0:2379"), Insecure: true}, ""},
		"open, with an authority": {Config{Clients: TLS{Cert: cert, Key: key, CA: cert},
			ListenClients: all("https://0.0.0.0:2379")}, ""},
		"certificates and no URL: https": {Config{Clients: TLS{Cert: cert, Key: key, CA: cert}}, ""},
		"a cluster that names this member": {Config{Name: "a",
			InitialCluster: "a=http://127.0.0.1:2380,b=http://127.0.0.1:2390", Insecure: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := c.cfg.complete(); !problem.Is(err, c.code) && (err != nil || c.code != "") {
				t.Errorf("%v, want %v", err, c.code)
			}
		})
	}
	tls := Config{Clients: TLS{Cert: cert, Key: key}}
	for _, c := range []struct {
		cfg     Config
		address string
		code    problem.Code
	}{
		{Config{}, "0.0.0.0:0", problem.Listen}, {Config{}, ":0", problem.Listen},
		{Config{}, "127.0.0.1:0", problem.Listen},
		{tls, "127.0.0.1:0", problem.Listen}, {Config{}, "7070", problem.Usage}, {Config{}, "unix:sock", problem.Usage},
	} {
		if l, err := c.cfg.ListenHTTP(c.address); !problem.Is(err, c.code) {
			t.Errorf("--http=%s: %v, %v", c.address, l, err)
		}
	}
}

func TestDefaults(t *testing.T) {
	c, err := (Config{Name: "a"}).complete()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Abs("a.etcd")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.AdvertiseClients[0].String(); c.Dir != dir || got != "unix://"+dir+"/clients.sock" ||
		c.ListenPeers != nil {
		t.Errorf("data in %s, clients are given %s, peers %v", c.Dir, got, c.ListenPeers)
	}
	anywhere := []url.URL{{Scheme: "http", Host: "0.0.0.0:2379"}}
	c, err = (Config{Insecure: true, ListenClients: anywhere}).complete()
	if err != nil {
		t.Fatal(err)
	}
	if u := c.AdvertiseClients[0]; unspecified(u.Hostname()) || u.Port() != "2379" || len(c.AdvertiseClients) != 1 {
		t.Errorf("clients are given %v", c.AdvertiseClients)
	}
	if own := c.ListenClients[1]; own.Path != c.Dir+"/clients.sock" || len(anywhere) != 1 {
		t.Errorf("it listens on %v", c.ListenClients)
	}
	deep := "/tmp/" + strings.Repeat("d", socketMax)
	c, err = (Config{Insecure: true, ListenClients: anywhere, Dir: deep}).complete()
	if err != nil || len(c.ListenClients) != 1 {
		t.Errorf("in a directory that is too deep for a socket it listens on %v: %v", c.ListenClients, err)
	}
}

func TestCloseDoesNotWaitForWatches(t *testing.T) {
	m := begin(t, alone(t))
	c := dial(t, m)
	// not the client's own watch, which may wait for ever when its server ends
	w, err := pb.NewWatchClient(c.ActiveConnection()).Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	create := &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("k")}}
	if err := w.Send(&pb.WatchRequest{RequestUnion: create}); err != nil {
		t.Fatal(err)
	}
	if r, err := w.Recv(); err != nil || !r.Created {
		t.Fatal(r, err)
	}
	closed := make(chan struct{})
	go func() { m.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(4 * time.Second): // etcd by itself takes 5.2 s
		t.Error("close waits for an open watch")
	}
	<-closed
}

// Ready is for a majority: one of three never has it, and can be stopped.
func TestNeverReady(t *testing.T) {
	c := alone(t)
	c.Insecure, c.InitialCluster = true, "a=http://127.0.0.1:1,b=http://127.0.0.1:2,c=http://127.0.0.1:3"
	c.ListenPeers = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	c.AdvertisePeers = []url.URL{{Scheme: "http", Host: "127.0.0.1:1"}}
	m, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := m.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one of three is ready: %v", err)
	}
	m.Close()
}

func TestRunSignsTheStoreOnce(t *testing.T) {
	cfg := alone(t)
	cfg.Version = "v1"
	m := begin(t, cfg)
	var rev int64
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		w := m.client.Watch(t.Context(), schema.Elasticd, clientv3.WithRev(1))
		go func() { done <- m.Run(ctx) }()
		r := <-w
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if kv := r.Events[len(r.Events)-1].Kv; string(kv.Value) != "v1" || rev != 0 && kv.ModRevision != rev {
			t.Errorf("%s at revision %d, first %d", kv.Value, kv.ModRevision, rev)
		} else {
			rev = kv.ModRevision
		}
	}
}

func TestRunEndsWithEtcd(t *testing.T) {
	m := begin(t, alone(t))
	done := make(chan error, 1)
	go func() { done <- m.Run(t.Context()) }()
	m.etcd.Server.HardStop()
	if err := <-done; !refused(err, problem.Failed, "etcd stopped") {
		t.Errorf("run after etcd stopped: %v", err)
	}
}

func TestIdle(t *testing.T) {
	m := begin(t, alone(t))
	const limit = 200 * time.Millisecond
	idle := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 4*limit)
		defer cancel()
		return m.WaitIdle(ctx, limit)
	}
	if err := idle(); err != nil {
		t.Fatalf("no server answers: %v", err)
	}
	c := dial(t, m)
	if _, err := c.Get(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if err := idle(); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("idle with a client: %v", err)
	}
	lease, err := c.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := idle(); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("idle with a lease: %v", err)
	}
	if _, err := m.client.Revoke(t.Context(), lease.ID); err != nil {
		t.Fatal(err)
	}
	if err := idle(); err != nil {
		t.Fatalf("no server answers any more: %v", err)
	}
}
