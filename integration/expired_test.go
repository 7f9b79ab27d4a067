package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/certs"
)

// expired makes two directories with certificates of the same authorities. One set is valid for an
// hour, and the other expired yesterday.
func (p *sandbox) expired() (valid, old string) {
	p.t.Helper()
	request := certs.Request{Dir: p.path("valid"), Hosts: []string{"127.0.0.1"}, Clients: []string{"client"},
		Life: time.Hour, Now: time.Now()}
	_, err := certs.Make(request)
	if err == nil {
		err = os.CopyFS(p.path("old"), os.DirFS(request.Dir))
	}
	for _, ca := range []string{"ca.key", "peer-ca.key"} { // CopyFS does not keep the mode
		if err == nil {
			err = os.Chmod(p.path("old", ca), 0o600)
		}
	}
	if err == nil {
		request.Dir, request.Now = p.path("old"), request.Now.Add(-24*time.Hour)
		_, err = certs.Make(request)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return p.path("valid"), p.path("old")
}

// Each side that finds an expired certificate reports it, with a fix: a server and a member report
// their own, and a client reports its own or the server's.
func TestExpiredCertificates(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	valid, old := p.expired()
	at := "https://" + address(t)
	server := func(of string, more ...string) *proc {
		return p.start(filepath.Join(bin, "elasticd"),
			append([]string{"--data-dir=" + p.path("data"), "--http=", "--listen-client-urls=" + at,
				"--cert-file=" + of + "/server.crt", "--key-file=" + of + "/server.key",
				"--trusted-ca-file=" + valid + "/ca.crt"}, more...)...)
	}
	member := []string{"--peer-cert-file=" + old + "/peer.crt", "--peer-key-file=" + old + "/peer.key",
		"--peer-trusted-ca-file=" + valid + "/peer-ca.crt", "--listen-peer-urls=https://" + address(t)}
	for flag, x := range map[string]*proc{"--cert-file=": server(old),
		"--peer-cert-file=": server(valid, member...)} {
		p.ends(x, 2)
		p.says(x, flag+old)
		p.says(x, "fix: renew it (elastic certs), or set the clock of this machine")
	}

	p.says(server(valid), "ready: clients")
	p.at = at
	ask := func(of string) result {
		return p.command("jobs", "--cacert="+valid+"/ca.crt", "--cert="+of+"/client.crt", "--key="+of+
			"/client.key")
	}
	if r := ask(valid); r.status != 0 {
		t.Errorf("with a certificate that is valid: %d %s", r.status, r.stderr)
	}
	if r := ask(old); r.status != 4 ||
		!strings.Contains(r.stderr, "error: our certificate is not valid now") ||
		!strings.Contains(r.stderr, "fix: renew it (elastic certs)") {
		t.Errorf("with a certificate that has expired: %d %s", r.status, r.stderr)
	}
	// a server reads its certificate again for each connection
	for _, file := range []string{"server.crt", "server.key"} {
		b, err := os.ReadFile(old + "/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(valid+"/"+file, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r := ask(valid); r.status != 4 ||
		!strings.Contains(r.stderr, "error: the server's certificate is not valid now") ||
		!strings.Contains(r.stderr, "fix: renew it (elastic certs)") {
		t.Errorf("a server whose certificate has expired: %d %s", r.status, r.stderr)
	}
}
