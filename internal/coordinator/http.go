package coordinator

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// readyLimit is how long one check of /readyz may take.
const readyLimit = time.Second

// Handler serves /healthz (the process runs), /readyz (the store can be used; ?verbose gives the
// reason if not), /metrics, and the page of the jobs elsewhere. It is read-only.
func (m *Member) Handler() http.Handler {
	own := prometheus.NewRegistry()
	own.MustRegister(metrics{m})

	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", m.serveReady)
	// etcd registers its own metrics with the default registry.
	mux.Handle("GET /metrics", promhttp.HandlerFor(prometheus.Gatherers{own, prometheus.DefaultGatherer},
		promhttp.HandlerOpts{
			ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4, Timeout: 10 * time.Second,
		}))
	mux.Handle("GET /", m.readers(m.page))
	return m.onlyKnown(onlyByAddress(mux))
}

// onlyKnown hides pages with names of jobs from clients without a certificate, if client
// certificates are required.
func (m *Member) onlyKnown(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		anonymous := r.TLS != nil && m.cfg.Clients.CA != "" && len(r.TLS.VerifiedChains) == 0
		brief := (r.URL.Path == "/healthz" || r.URL.Path == "/readyz") && r.URL.RawQuery == ""
		if anonymous && !brief {
			http.Error(w, "a certificate of a client is needed", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ListenHTTP opens the listener for Handler on a socket in the data directory.
func (m *Member) ListenHTTP() (net.Listener, error) {
	return listenSocket(filepath.Join(m.cfg.Dir, httpSocket))
}

// ListenHTTP opens the listener for Handler: on a socket (unix:PATH) or on HOST:PORT. It uses the
// TLS certificate of the client port, if there is one.
func (c Config) ListenHTTP(address string) (net.Listener, error) {
	if path, ok := socketPath(address); ok {
		return listenSocket(path)
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, usage(fmt.Sprintf("--http=%s: %v", address, err), "--http=HOST:PORT or --http=unix:/PATH")
	}
	if !c.Insecure && (c.Clients.Cert == "" || c.Clients.CA == "") {
		return nil, open("--http="+address, "can read the metrics, which name every job",
			"--cert-file, --key-file and --trusted-ca-file")
	}
	l, err := ListenBounded(address)
	if err != nil {
		return nil, listening(address, err)
	}
	if c.Clients.Cert == "" {
		return l, nil
	}
	conf, err := c.Clients.pages()
	if err != nil {
		l.Close()
		return nil, err
	}
	return tls.NewListener(l, conf), nil
}

// listenSocket replaces the socket of a killed server. It fails if a server listens on the socket.
func listenSocket(path string) (net.Listener, error) {
	if err := checkSocket(path); err != nil {
		return nil, err
	}
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return nil, listening(path, syscall.EADDRINUSE)
	}
	if st, err := os.Lstat(path); err == nil && st.Mode()&fs.ModeSocket != 0 {
		os.Remove(path)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, listening(path, err)
	}
	return l, nil
}

// pages requests a certificate from the client, but does not require one: supervisors without a
// certificate may read /healthz and /readyz. Handler requires it for all other pages.
func (t TLS) pages() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS13,
		// read for each connection, because certificates are renewed
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
			return &pair, err
		}}
	if t.CA == "" {
		return conf, nil
	}
	pool, err := authorities(t.CA)
	if err != nil {
		return nil, usage(fmt.Sprintf("--trusted-ca-file=%s: %v",
			t.CA, err), "a PEM certificate of the authority")
	}
	conf.ClientCAs, conf.ClientAuth = pool, tls.VerifyClientCertIfGiven
	return conf, nil
}

func authorities(file string) (*x509.CertPool, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, errors.New("no certificate in it")
	}
	return pool, nil
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
		{"quorum", m.etcd.Server.LinearizableReadNotify},
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

// onlyByAddress refuses requests to loopback with another host name than this machine's. A web page
// in the user's browser could otherwise reach this server by a name that resolves to 127.0.0.1.
func onlyByAddress(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		here, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if here != nil && here.IP.IsLoopback() && host != "localhost" && host != hostname() &&
			net.ParseIP(host) == nil {
			http.Error(w, fmt.Sprintf("this is not %q", host), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}
