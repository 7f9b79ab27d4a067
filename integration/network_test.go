package integration

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
)

// dialFrom dials from a machine of the testbed: it makes the socket in the machine's network
// namespace.
func (l *testbed) dialFrom(name string) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (c net.Conn, err error) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
			var ns *os.File
			if ns, err = os.Open("/run/netns/" + l.ns(name)); err != nil {
				return
			}
			defer ns.Close()
			if err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err == nil {
				c, err = (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp4", address)
			}
		}()
		<-done
		return c, err
	}
}

// listening returns the TCP addresses at which a machine listens for others, as the kernel lists
// them.
func (l *testbed) listening(name string) (all []string) {
	l.t.Helper()
	cmd := l.sandbox.start("nsenter", l.inside(name, "cat", "/proc/net/tcp", "/proc/net/tcp6")...)
	l.ends(cmd, 0)
	for line := range strings.Lines(cmd.stdout()) {
		f := strings.Fields(line)
		if len(f) < 4 || f[3] != "0A" { // not in state LISTEN
			continue
		}
		host, port, _ := strings.Cut(f[1], ":")
		n, err := strconv.ParseUint(port, 16, 16)
		if err != nil {
			l.t.Fatal(err)
		}
		if b, _ := hex.DecodeString(host); len(b) == 4 && b[3] == 127 {
			continue
		}
		all = append(all, net.JoinHostPort(l.addr[name], fmt.Sprint(n)))
	}
	return slices.Compact(slices.Sorted(slices.Values(all)))
}

// said returns the answer of a server to bytes that are sent over TCP, or over TLS with a
// certificate of another authority.
func said(c net.Conn, config *tls.Config, ask string) string {
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * time.Second))
	if config != nil {
		c = tls.Client(c, config)
	}
	if _, err := io.WriteString(c, ask); err != nil {
		return ""
	}
	b, _ := io.ReadAll(io.LimitReader(c, 1<<20))
	return string(b)
}

// A machine on the same network has no certificate, or one of another authority. It can read, stop
// and remove nothing, on any port on which the server or a node listens.
func TestStranger(t *testing.T) {
	t.Parallel()
	l := newTestbed(t, "a", "b", "evil")
	l.server.end()
	at := l.addr["server"]
	l.ends(l.start(filepath.Join(bin, "elastic"), "certs", "--host="+at), 0)
	l.ends(l.start(filepath.Join(bin, "elastic"), "certs", "--host="+at, "--dir=theirs"), 0)
	cert := func(name string) string { return l.path("certs", name) }
	url := "https://" + at + ":2379"
	server := l.start("nsenter",
		l.inside("server", filepath.Join(bin, "elasticd"), "--name=tls", "--data-dir="+
			filepath.Join(l.dir, "tls"),
			"--listen-client-urls="+url+",unix://"+filepath.Join(l.dir, "tls.sock"),
			"--advertise-client-urls="+url,
			"--http="+at+":7070",
			"--listen-peer-urls=https://"+at+":2380", "--initial-advertise-peer-urls=https://"+at+":2380",
			"--cert-file="+cert("server.crt"), "--key-file="+cert("server.key"), "--trusted-ca-file="+
				cert("ca.crt"),
			"--peer-cert-file="+cert("peer.crt"), "--peer-key-file="+cert("peer.key"),
			"--peer-trusted-ca-file="+cert("peer-ca.crt"))...)
	l.says(server, "elasticd: ready: ")
	l.at = "unix://" + filepath.Join(l.dir, "tls.sock")
	for _, name := range []string{"a", "b"} {
		l.agents[name] = l.start("nsenter",
			l.inside(name, filepath.Join(bin, "elastic"), "run", "--server="+url, "--cacert="+cert("ca.crt"),
				"--cert="+cert("client.crt"), "--key="+cert("client.key"), "--np=2", "--job-id=x", "--node="+
					name,
				"--log-dir=log-"+name,
				"--state-dir="+filepath.Join(l.dir, "state", name), "sh", "-c", sit)...)
	}
	l.running("x", 1, 2)

	pair, err := tls.LoadX509KeyPair(l.path("theirs", "client.crt"), l.path("theirs", "client.key"))
	if err != nil {
		t.Fatal(err)
	}
	dial := l.dialFrom("evil")
	configs := map[string]*tls.Config{"plain": nil, "no certificate": {InsecureSkipVerify: true},
		"another authority's": {InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}}
	asks := []string{"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"GET /debug/vars HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"POST /v3/kv/range HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: " +
			"20\r\n\r\n{\"key\":\"L2VsYXN0aWM\"}", "\x16\x03\x01\x00\x00"}
	ports := 0
	for _, machine := range []string{"server", "a", "b"} {
		for _, address := range l.listening(machine) {
			ports++
			for with, config := range configs {
				for _, ask := range asks {
					c, err := dial(t.Context(), address)
					if err != nil {
						t.Fatalf("%s does not listen: %v", address, err)
					}
					if got := said(c, config, ask); strings.Contains(got, " 200 ") ||
						strings.Contains(got, "elastic_") || strings.Contains(got, "memstats") {
						t.Errorf("%s of %s, with %s: %q is answered with %.200q", address, machine, with, ask, got)
					}
				}
				if config != nil {
					asClient(t, address, config, dial)
				}
			}
		}
	}
	if ports < 5 {
		t.Errorf("only %d ports were tried: those for clients, members and pages, and one of each node", ports)
	}
	l.reaches("x", "as before", func(s status) error {
		if s.State != "running" || s.Generation != 1 {
			return fmt.Errorf("not so")
		}
		return nil
	})
	l.must("stop", "x")
	for _, name := range []string{"a", "b"} {
		l.ends(l.agents[name], 93)
	}
}

// asClient checks that every request to etcd is refused.
func asClient(
	t *testing.T, address string, config *tls.Config, dial func(context.Context, string) (net.Conn, error),
) {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"https://" + address}, TLS: config,
		Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithContextDialer(dial)}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if r, err := c.Get(ctx, "/elastic/", clientv3.WithPrefix()); err == nil {
		t.Errorf("%s: a stranger reads %v", address, r.Kvs)
	}
	if _, err := c.Delete(ctx, "/elastic/", clientv3.WithPrefix()); err == nil {
		t.Errorf("%s: a stranger deletes", address)
	}
}
