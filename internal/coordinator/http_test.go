package coordinator

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	mrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

func get(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
	return w
}

func TestJobMetrics(t *testing.T) {
	cfg := alone(t)
	cfg.Version = "v9"
	m := begin(t, cfg)
	j := schema.Job("x")
	step, at := int64(120), time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	ref := func(name string) membership.Ref {
		return membership.Ref{Node: name, Incarnation: "i", Address: "127.0.0.1:1"}
	}
	node := func(name string) string {
		return recordOf(membership.Node{Ref: ref(name), Attempt: 1, Slots: 2})
	}
	for key, value := range map[string]string{
		j.Job():   recordOf(rendezvous.Job{UID: "uid", Attempt: 1, Slots: 2, Rules: rendezvous.Rules{Replicas: 2}}),
		j.Fence(): schema.FenceValue("uid", 7),
		j.World(): recordOf(rendezvous.World{UID: "uid", Generation: 7, Attempt: 1, Phase: rendezvous.Running,
			Time: time.Now().Add(-time.Hour), Proposal: "p", Count: 3, Chunks: 1, Slots: 2, NP: 3,
			Ledger: rendezvous.Ledger{Used: 1, Nodes: []rendezvous.NodeRecord{
				{Node: "d", Quarantine: rendezvous.Seconds(time.Minute), Time: time.Now().Add(-time.Hour)},
				{Node: "e", Quarantine: rendezvous.Seconds(time.Second), Time: at}}},
			Quarantine: []rendezvous.Quarantine{{Node: "c", Until: 9}, {Node: "b", Until: 7}},
			Causes: map[rendezvous.Cause]rendezvous.Starts{"node-lost": {Count: 3, IdleMS: 4500},
				"scale": {Count: 1, IdleMS: 500}}}),
		j.Wish(): recordOf(rendezvous.Wish{NP: 4}),
		j.Head(): recordOf(checkpoint.Head{Number: 5, Step: &step, Time: at,
			Holders: []membership.Ref{ref("a"), ref("z")}}),
		j.Progress(): record0(fmt.Sprintf(`"step":131,"time":%q`,
			time.Now().Add(-90*time.Second).Format(time.RFC3339))),
		j.Node("a"): node("a"), j.Node("b"): node("b"),
		j.Held("b"):                 `{"format":1,"record":[4,5]}`,
		schema.Job("y").Job():       recordOf(rendezvous.Job{UID: "uid", Attempt: 1, Slots: 1}),
		schema.Job("y").World():     `{"format":9,"record":{"phase":"done"}}`,
		schema.DrainedMachine("m2"): record0(`"hostname":"lab2"`),
		schema.Incident("m1", time.Now(), "x"): record0(fmt.Sprintf(
			`"hostname":"lab1","node":"a","job":"x","kind":"hung","time":%q`,
			time.Now().Add(time.Hour).Format(time.RFC3339))),
	} {
		if _, err := m.client.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	body := get(t, m.Handler(), "/metrics").Body.String()
	for _, line := range []string{
		`elastic_build_info{version="v9"} 1`,
		`elastic_job_generation{job="x"} 7`,
		`elastic_job_phase{job="x",phase="running"} 1`,
		`elastic_job_world_nodes{job="x"} 3`,
		`elastic_job_world_size{job="x"} 6`,
		`elastic_job_restarts_used{job="x"} 1`,
		`elastic_job_wished_nodes{job="x"} 4`,
		`elastic_job_nodes{job="x"} 2`,
		`elastic_job_nodes{job="y"} 0`,
		`elastic_job_checkpoint_number{job="x"} 5`,
		`elastic_job_checkpoint_step{job="x"} 120`,
		`elastic_job_checkpoint_copies{job="x"} 2`,
		`elastic_job_checkpoint_copies_wanted{job="x"} 2`,
		`elastic_job_step{job="x"} 131`,
		`elastic_job_quarantined_nodes{job="x"} 1`,
		`elastic_job_starts_total{cause="node-lost",job="x"} 3`,
		`elastic_job_lost_seconds_total{cause="node-lost",job="x"} 4.5`,
		`elastic_job_starts_total{cause="scale",job="x"} 1`,
		`elastic_machine_incidents{host="lab1",kind="hung",machine="m1"} 1`,
		`elastic_machine_used{host="lab1",machine="m1"} 1`,
		`elastic_machine_used{host="lab2",machine="m2"} 0`,
		`etcd_server_has_leader 1`,
	} {
		if !strings.Contains(body, "\n"+line+"\n") {
			t.Errorf("missing: %s", line)
		}
	}
	for name, least := range map[string]float64{"progress": 90, "checkpoint": 100_000_000} {
		var age float64
		_, rest, found := strings.Cut(body, "\nelastic_job_"+name+`_age_seconds{job="x"} `)
		if _, err := fmt.Sscan(rest, &age); !found || err != nil || age < least {
			t.Errorf("age of the %s: %v (%v)", name, age, err)
		}
	}
	for _, name := range []string{"generation", "wished_nodes", "asked_nodes"} {
		if strings.Contains(body, "elastic_job_"+name+`{job="y"}`) {
			t.Errorf("%s of a job without it", name)
		}
	}
	if strings.Contains(body, `phase="done"`) {
		t.Error("a record of a newer format was read")
	}
}

// A web page must not reach the metrics behind the back of the user whose browser shows it.
func TestPagesAreKeptOut(t *testing.T) {
	m := begin(t, alone(t))
	ours := httptest.NewServer(m.Handler())
	t.Cleanup(ours.Close)
	ask := func(host, method string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, ours.URL+"/healthz",
			strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		req.Header.Set("Origin", "http://evil.example")
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Body.Close() })
		return r
	}
	if r := ask("evil.example", "GET"); r.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("under a foreign name: %s", r.Status)
	}
	for _, host := range []string{"localhost", "127.0.0.1:7070"} {
		if r := ask(host, "GET"); r.StatusCode != 200 || r.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("as %s: %s, allowed to %q", host, r.Status, r.Header.Get("Access-Control-Allow-Origin"))
		}
	}
	if r := ask("localhost", "POST"); r.StatusCode != 405 {
		t.Errorf("a post is taken: %s", r.Status)
	}
}

// The pages of etcd (/metrics, /debug/vars, /version) and its JSON gateway know no users: the
// address of clients does not have them.
func TestClientAddressServesNoPages(t *testing.T) {
	c := alone(t)
	c.Insecure, c.ListenClients = true, []url.URL{{Scheme: "http", Host: "127.0.0.1:" + free(t)}}
	m := begin(t, c)
	for _, path := range []string{"/metrics", "/debug/vars", "/version", "/health", "/v3/kv/range"} {
		if r, err := http.Get(m.URLs()[0] + path); err == nil {
			r.Body.Close()
			t.Errorf("%s is answered: %s", path, r.Status)
		}
	}
	if _, err := dial(t, m).Get(t.Context(), "k"); err != nil {
		t.Error(err)
	}
	list, err := filepath.Glob(filepath.Join(c.Dir, "*.sock"))
	if err != nil || len(list) != 1 || filepath.Base(list[0]) != ClientSocket {
		t.Errorf("sockets in the data directory: %v, %v", list, err)
	}
}

// jobSeries counts how often each series of a job is reported by members that have one leader all the
// while.
func jobSeries(t *testing.T, members []*Member) map[string]int {
	for {
		leader := members[0].etcd.Server.Leader()
		series := map[string]int{}
		for _, m := range members {
			for line := range strings.Lines(get(t, m.Handler(), "/metrics").Body.String()) {
				if name, _, _ := strings.Cut(line, " "); strings.HasPrefix(name, "elastic_job_") {
					series[name]++
				}
			}
		}
		same := func(m *Member) bool { return m.etcd.Server.Leader() == leader }
		if leader != 0 && !slices.ContainsFunc(members, func(m *Member) bool { return !same(m) }) {
			return series
		}
	}
}

// Members by flags, TLS on both sides; two are lost, then come back.
func TestQuorum(t *testing.T) {
	dir := t.TempDir()
	cert, key := certificate(t, dir)
	files := TLS{Cert: cert, Key: key, CA: cert, ClientAuth: true}
	var all []string
	cfgs := make([]Config, 3)
	for i := range cfgs {
		name := string(rune('a' + i))
		cfgs[i] = Config{Name: name, Dir: filepath.Join(dir, name), Heartbeat: 20 * time.Millisecond,
			Quota: tiny, ListenClients: []url.URL{{Scheme: "https", Host: "127.0.0.1:" + free(t)}},
			ListenPeers: []url.URL{{Scheme: "https", Host: "127.0.0.1:" + free(t)}},
			Clients:     files, Peers: files}
		all = append(all, name+"="+cfgs[i].ListenPeers[0].String())
	}
	members := make([]*Member, 3)
	for i := range cfgs {
		cfgs[i].InitialCluster = strings.Join(all, ",")
		m, err := Start(cfgs[i])
		if err != nil {
			t.Fatal(err)
		}
		members[i] = m
		t.Cleanup(func() {
			if members[i] != nil {
				members[i].Close()
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, m := range members {
		if err := m.Ready(ctx); err != nil {
			t.Fatal(err)
		}
	}
	tlscfg, err := files.info().ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	endpoints := []string{members[0].URLs()[0], members[1].URLs()[0], members[2].URLs()[0]}
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: tlscfg, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	// The leader cures all three: each has a database of its own.
	fill(t, c)
	var leader *Member
	for _, m := range members {
		if m.leads() {
			leader = m
		} else {
			m.look(ctx, time.Now())
		}
	}
	if leader == nil || !leader.full() {
		t.Fatalf("leader %v, not full", leader)
	}
	leader.look(ctx, time.Now())
	for _, m := range members {
		s, err := m.client.Status(ctx, "")
		if err != nil || s.DbSize > tiny {
			t.Errorf("member %s has %d bytes after the cure, %v", m.cfg.Name, s.DbSize, err)
		}
	}
	if _, err := c.Put(ctx, "k", "v"); err != nil {
		t.Errorf("put after the cure: %v", err)
	}

	// Each series of a job is reported once: by the leader.
	if _, err := c.Put(ctx, schema.Job("x").Job(), recordOf(rendezvous.Job{UID: "u", Attempt: 1, Slots: 1})); err != nil {
		t.Fatal(err)
	}
	series := jobSeries(t, members)
	if series[`elastic_job_nodes{job="x"}`] == 0 {
		t.Error("no member reports job x")
	}
	for name, n := range series {
		if n != 1 {
			t.Errorf("%s is reported %d times", name, n)
		}
	}

	// One of three is alive, and knows that it is of no use.
	for i := range 2 {
		members[i].etcd.Server.HardStop()
		members[i].Close()
		members[i] = nil
	}
	h := members[2].Handler()
	if got := get(t, h, "/healthz"); got.Code != 200 {
		t.Errorf("healthz without a quorum: %d", got.Code)
	}
	if got := get(t, h, "/readyz"); got.Code != 503 ||
		!strings.Contains(got.Body.String(), "[-]quorum failed") {
		t.Errorf("readyz without a quorum: %d %s", got.Code, got.Body)
	}
	if members[0], err = Start(cfgs[0]); err != nil {
		t.Fatal(err)
	}
	if err := members[0].Ready(ctx); err != nil {
		t.Fatal(err)
	}
	for get(t, h, "/readyz?verbose").Code != 200 {
		if ctx.Err() != nil {
			t.Fatalf("readyz with a quorum again: %s", get(t, h, "/readyz").Body)
		}
	}
}

// Metrics name jobs, so they need a certificate; a supervisor that asks for health has none.
func TestHTTPWithTLS(t *testing.T) {
	cert, key := certificate(t, t.TempDir())
	files := TLS{Cert: cert, Key: key, CA: cert}
	cfg := alone(t)
	cfg.Clients, cfg.ListenClients = files, []url.URL{{Scheme: "https", Host: "127.0.0.1:" + free(t)}}
	m := begin(t, cfg)
	l, err := cfg.ListenHTTP("0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: m.Handler()}
	go srv.Serve(l)
	defer srv.Close()
	pool, err := authorities(cert)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		certs []tls.Certificate
		path  string
		wants int
	}{
		{nil, "/healthz", 200}, {nil, "/readyz", 200}, {nil, "/readyz?verbose", 403}, {nil, "/metrics", 403},
		{[]tls.Certificate{pair}, "/readyz?verbose", 200}, {[]tls.Certificate{pair}, "/metrics", 200},
	} {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: c.certs}}}
		r, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d%s", l.Addr().(*net.TCPAddr).Port, c.path))
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
		if r.StatusCode != c.wants || r.TLS.Version != tls.VersionTLS13 {
			t.Errorf("%s with %d certificates: %s, want %d", c.path, len(c.certs), r.Status, c.wants)
		}
	}
}

// free is a port below the range that the kernel gives out by itself.
func free(t *testing.T) string {
	t.Helper()
	for range 100 {
		p := fmt.Sprint(10000 + mrand.N(5000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+p); err == nil {
			l.Close()
			return p
		}
	}
	t.Fatal("no free port")
	return ""
}

// certificate writes one for 127.0.0.1 that certifies itself.
func certificate(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	priv, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &priv.PublicKey, priv)
	if err != nil {
		t.Fatal(err)
	}
	pk, err := x509.MarshalPKCS8PrivateKey(priv)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der},
		key: {Type: "PRIVATE KEY", Bytes: pk}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}
