package coordinator

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elasticd/elastic/pkg/schema"
)

// readyLimit is how long one check of /readyz may take.
const readyLimit = time.Second

// Handler serves /healthz (this process lives), /readyz (the store can be
// used, ?verbose says what cannot) and /metrics. It changes nothing.
func (m *Member) Handler() http.Handler {
	own := prometheus.NewRegistry()
	own.MustRegister(metrics{m})

	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", m.serveReady)
	// etcd registers its own metrics with the default registry.
	mux.Handle("GET /metrics", promhttp.HandlerFor(prometheus.Gatherers{own, prometheus.DefaultGatherer}, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4, Timeout: 10 * time.Second,
	}))
	return onlyByAddress(mux)
}

// ListenHTTP opens the listener for Handler: plain on loopback, with the
// clients' certificate elsewhere. Errors: ErrUsage, ErrListen.
func (c Config) ListenHTTP(address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, usage(fmt.Sprintf("--http=%s: %v", address, err), "--http=HOST:PORT")
	}
	open := !loopback(host)
	if open && c.Clients.Cert == "" && !c.Insecure {
		return nil, &Problem{Kind: ErrListen, Text: fmt.Sprintf("--http=%s is open to other machines without TLS", address),
			Why: "metrics name every job", Fix: "--cert-file and --key-file, or --insecure in a closed network, or --http=127.0.0.1:7070"}
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, listening(address, err)
	}
	if !open || c.Clients.Cert == "" {
		return l, nil
	}
	cert := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { // read again: certificates are renewed
		pair, err := tls.LoadX509KeyPair(c.Clients.Cert, c.Clients.Key)
		return &pair, err
	}
	return tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: cert}), nil
}

type check struct {
	name string
	ok   func(context.Context) error
}

func (m *Member) checks() []check {
	return []check{
		{"leader", func(context.Context) error {
			if m.etcd.Server.Leader() == 0 {
				return errors.New("the members have no leader")
			}
			return nil
		}},
		{"quorum", func(ctx context.Context) error {
			_, err := m.client.Get(ctx, schema.Root, clientv3.WithCountOnly())
			return err
		}},
		{"space", func(context.Context) error {
			if m.full() {
				return errors.New("the store is full (NOSPACE)")
			}
			return nil
		}},
		{"data", func(context.Context) error {
			if m.alarm(pb.AlarmType_CORRUPT) {
				return errors.New("members have different data (CORRUPT)")
			}
			return nil
		}},
	}
}

func (m *Member) serveReady(w http.ResponseWriter, r *http.Request) {
	var lines bytes.Buffer
	status := http.StatusOK
	for _, c := range m.checks() {
		ctx, cancel := context.WithTimeout(r.Context(), readyLimit)
		err := c.ok(ctx)
		cancel()
		if err == nil {
			fmt.Fprintf(&lines, "[+]%s ok\n", c.name)
			continue
		}
		status = http.StatusServiceUnavailable
		fmt.Fprintf(&lines, "[-]%s failed: %v\n", c.name, err)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	switch {
	case status != http.StatusOK || r.URL.Query().Has("verbose"):
		w.Write(lines.Bytes())
	default:
		fmt.Fprintln(w, "ok")
	}
}

// onlyByAddress refuses requests that reached loopback under a name that is
// not this machine's: a page in somebody's browser whose name was pointed here.
func onlyByAddress(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		here, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if here != nil && here.IP.IsLoopback() && host != "localhost" && host != hostname() && net.ParseIP(host) == nil {
			http.Error(w, fmt.Sprintf("this is not %q", host), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
