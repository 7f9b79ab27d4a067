package integration

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// grants returns the calls of etcdctl in the section of docs/SECURITY.md about roles.
func grants(t *testing.T) (calls [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Roles of one job")
	_, script, _ := strings.Cut(section, "```sh\n")
	script, _, ok := strings.Cut(script, "```")
	if !ok {
		t.Fatal("the section has no commands")
	}
	out, err := exec.CommandContext(t.Context(), "bash", "-euc", `etcdctl() { echo "$*"; }`+"\n"+script).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		calls = append(calls, strings.Fields(line))
	}
	return calls
}

// carryOut executes one of those calls.
func carryOut(t *testing.T, c *clientv3.Client, call []string) {
	t.Helper()
	may := map[string]clientv3.PermissionType{"read": clientv3.PermissionType(clientv3.PermRead),
		"write":     clientv3.PermissionType(clientv3.PermWrite),
		"readwrite": clientv3.PermissionType(clientv3.PermReadWrite)}
	var err error
	switch ctx := t.Context(); strings.Join(call[:2], " ") {
	case "role add":
		_, err = c.RoleAdd(ctx, call[2])
	case "role grant-permission":
		end := ""
		if i := slices.Index(call, "--prefix"); i > 0 {
			call = slices.Delete(slices.Clone(call), i, i+1)
			end = clientv3.GetPrefixRangeEnd(call[4])
		}
		_, err = c.RoleGrantPermission(ctx, call[2], call[4], end, may[call[3]])
	case "user add":
		_, err = c.UserAdd(ctx, call[2], "secret")
	case "user grant-role":
		_, err = c.UserGrantRole(ctx, call[2], call[3])
	default:
		t.Fatalf("%v", call)
	}
	if err != nil {
		t.Fatalf("etcdctl %s: %v", strings.Join(call, " "), err)
	}
}

// guardedEtcd starts a real etcd with the users of docs/SECURITY.md, and with TLS.
func guardedEtcd(t *testing.T, p *sandbox) {
	t.Helper()
	etcd, err := exec.LookPath("etcd")
	if err != nil {
		t.Fatal("etcd is not in PATH: install the package etcd-server")
	}
	p.must("certs", "--host=127.0.0.1", "--client=root,trainer,reader,operator")
	p.at = "https://" + address(t)
	d := p.start(etcd, "--data-dir=etcd", "--listen-client-urls="+p.at, "--advertise-client-urls="+p.at,
		"--listen-peer-urls=http://"+address(t), "--client-cert-auth", "--cert-file=certs/server.crt",
		"--key-file=certs/server.key", "--trusted-ca-file=certs/ca.crt")
	p.says(d, "ready to serve client requests")
	pair, err := tls.LoadX509KeyPair(p.path("certs", "root.crt"), p.path("certs", "root.key"))
	if err != nil {
		t.Fatal(err)
	}
	authority := x509.NewCertPool()
	authority.AppendCertsFromPEM([]byte(p.read("certs", "ca.crt")))
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{p.at}, DialTimeout: 10 * time.Second,
		TLS: &tls.Config{RootCAs: authority, Certificates: []tls.Certificate{pair}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, call := range grants(t) {
		carryOut(t, c, call)
	}
	for _, user := range []string{"root", "reader", "operator"} { // the commands show it for the trainer
		carryOut(t, c, []string{"user", "add", user})
		carryOut(t, c, []string{"user", "grant-role", user, user})
	}
	if _, err := c.AuthEnable(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// as returns the sandbox of a user, with its certificate, or with a certificate of no user and a
// password.
func (p *sandbox) as(user, by string) *sandbox {
	q := *p
	cert := user
	q.env = slices.Clone(p.env)
	if by == "password" {
		cert = "root" // etcd takes the name of the password's user
		q.set("ELASTIC_USER="+user, "ELASTIC_PASSWORD=secret")
	}
	q.set("ELASTIC_CACERT="+p.path("certs", "ca.crt"), "ELASTIC_CERT="+p.path("certs", cert+".crt"),
		"ELASTIC_KEY="+p.path("certs", cert+".key"))
	return &q
}

// may has the commands that docs/SECURITY.md allows for each role while the job runs.
var may = []struct {
	roles string
	line  []string
}{
	{"trainer reader operator", []string{"status", "x"}},
	{"trainer reader operator", []string{"explain", "x"}},
	{"trainer reader operator", []string{"events", "x"}},
	{"trainer reader operator", []string{"nodes", "x"}},
	{"trainer reader operator", []string{"ckpt", "ls", "x"}},
	{"", []string{"jobs"}},
	{"trainer", []string{"logs", "x"}},
	{"trainer", []string{"ckpt", "get", "x"}},
	{"trainer operator", []string{"scale", "x", "--np=2", "--when-ready", "--detach"}},
}

// The three roles of docs/SECURITY.md are made by its commands on a real etcd. They can do what the
// document says and nothing else, with a password and with the name in a certificate.
func TestRoles(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"certificate", "password"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			p := newSandbox(t)
			guardedEtcd(t, p)
			trainer := p.as("trainer", by)
			a := trains(trainer, "a", 1)
			p.all = trainer.all
			trainer.running("x", 1, 1)
			trainer.committed("x", 1)
			for _, role := range []string{"reader", "operator"} {
				q := p.as(role, by)
				q.refused(4, "E-SERVER-AUTH", "run", "--np=1", "--job-id=x", "--node=b", "train",
					"--steps=400", "--step-sleep=10ms", "--save-every=300ms", "--steps=100000")
				q.refused(4, "E-SERVER-AUTH", "run", "--np=1", "--job-id=y", "true")
			}
			trainer.refused(4, "E-SERVER-AUTH", "run", "--np=1", "--job-id=y", "true")
			for _, m := range may {
				for _, role := range []string{"reader", "trainer", "operator"} {
					q, line := p.as(role, by), m.line
					if line[0] == "ckpt" && line[1] == "get" {
						line = append(slices.Clone(line), fmt.Sprintf("got-by-%s", role))
					}
					if !slices.Contains(strings.Fields(m.roles), role) {
						q.refused(4, "E-SERVER-AUTH", line...)
					} else if _, err := q.try(line...); err != nil {
						t.Errorf("%s: %v", role, err)
					}
				}
			}
			reader, operator := p.as("reader", by), p.as("operator", by)
			reader.refused(4, "E-SERVER-AUTH", "stop", "x")
			operator.must("stop", "x")
			p.ends(a, 93)
			var all []struct{ Number int }
			if err := json.Unmarshal([]byte(reader.must("ckpt", "ls", "x", "-o", "json")),
				&all); err != nil || len(all) == 0 {
				t.Fatalf("%v, %v", all, err)
			}
			newest := fmt.Sprint(all[0].Number)
			for _, line := range [][]string{{"ckpt", "restore", "x", newest}, {"rm", "x", "--yes"}} {
				if r := reader.command(line...); r.status != 4 ||
					!strings.Contains(r.stderr, "[E-SERVER-AUTH]") {
					t.Errorf("a reader, %v: %d %s", line, r.status, r.stderr)
				}
				operator.must(line...)
			}
		})
	}
}
