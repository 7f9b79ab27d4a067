package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/certs"
	"github.com/elasticd/elastic/pkg/schema"
)

func certsCommand() command {
	return command{name: "certs", usage: "certificates for a lab: an authority, server, members and clients", action: certsAction, flags: []flag{
		{name: "dir", arg: "DIR", usage: "where they lie (certs)"},
		{name: "host", arg: "NAME,…", usage: "names and addresses under which elasticd is dialled (this host)"},
		{name: "client", arg: "NAME,…", usage: "users of the server (client)"},
		{name: "days", arg: "N", usage: "for which they are valid (365)"},
		{name: "kubernetes", arg: "NAME", usage: "print Secrets NAME (server) and NAME-client for kubectl apply"},
	}}
}

// certificate is what is printed of one.
type certificate struct {
	File  string    `json:"file"`
	Key   string    `json:"key"`
	For   string    `json:"for"`
	Hosts []string  `json:"hosts"`
	Until time.Time `json:"until"`
}

func certsAction(_ context.Context, c *call) error {
	r, err := c.certsRequest()
	if err != nil {
		return err
	}
	secret := c.context.String("kubernetes")
	if c.context.IsSet("kubernetes") && !kubeName.MatchString(secret) {
		return c.setting("kubernetes").refuse("not a name of Kubernetes").
			because("a Secret has a name of small letters, digits and '-'").cure("--kubernetes=elasticd")
	}
	made, err := certs.Make(r)
	switch {
	case errors.Is(err, certs.ErrAuthority):
		return fail(Failed, "%v", err).because("a new authority would make void what this one signed").
			cure("put its files back; or begin anew in another --dir, and give the new files to every server and client")
	case err != nil:
		return fail(Failed, "%v", err).because("the certificates could not be written").cure("--dir=DIR in a directory of yours, on a disk with space")
	}
	if secret != "" {
		_, err := io.WriteString(c.Stdout, manifests(secret, made, r.Clients[0]))
		return err
	}
	return c.showCerts(r.Dir, made)
}

func (c *call) showCerts(dir string, made []certs.Made) error {
	all := []certificate{}
	rows := [][]string{{"FILE", "FOR", "NAMES", "VALID UNTIL"}}
	for _, m := range made {
		hosts := m.Hosts
		if hosts == nil {
			hosts = []string{}
		}
		all = append(all, certificate{dir + "/" + m.Name + ".crt", dir + "/" + m.Name + ".key", m.For, hosts, m.Until.UTC().Truncate(time.Second)})
		rows = append(rows, []string{dir + "/" + m.Name + ".crt", m.For, orDash(strings.Join(hosts, ",")), m.Until.UTC().Format(time.DateOnly)})
	}
	if c.out.json {
		return c.out.object(all)
	}
	c.out.say("elasticd --listen-client-urls=https://0.0.0.0:2379 --cert-file=%s/server.crt --key-file=%[1]s/server.key --trusted-ca-file=%[1]s/ca.crt", dir)
	c.out.say("elastic status --server=https://HOST:2379 --cacert=%s/ca.crt --cert=%[1]s/client.crt --key=%[1]s/client.key", dir)
	c.out.say("ca.key and peer-ca.key sign further certificates; neither servers nor clients need them")
	return c.out.table(rows)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (c *call) certsRequest() (certs.Request, error) {
	r := certs.Request{Dir: "certs", Hosts: ownNames(), Clients: []string{"client"}, Now: time.Now()}
	if d := c.setting("dir"); d.given {
		if d.text == "" {
			return r, d.refuse("no directory").cure("--dir=certs")
		}
		r.Dir = strings.TrimRight(d.text, "/")
	}
	days, err := c.setting("days").number(365, 1)
	if err != nil {
		return r, err
	}
	if days > 3650 {
		return r, c.setting("days").refuse("at most 3650").because("the authority is valid for ten years").cure("--days=365")
	}
	r.Life = time.Duration(days) * 24 * time.Hour
	if h := c.setting("host"); h.given {
		if r.Hosts, err = names(h, validHost, "a name or address that clients dial"); err != nil {
			return r, err
		}
		for _, here := range []string{"localhost", "127.0.0.1", "::1"} { // so that its own machine reaches it
			if !slices.Contains(r.Hosts, here) {
				r.Hosts = append(r.Hosts, here)
			}
		}
	}
	if n := c.setting("client"); n.given {
		valid := func(s string) bool {
			return schema.ValidName(s) && !slices.Contains([]string{"ca", "peer-ca", "server", "peer"}, s)
		}
		if r.Clients, err = names(n, valid, "a name as of a job, and not that of another file"); err != nil {
			return r, err
		}
	}
	return r, nil
}

// names splits a list, each of which must be valid.
func names(s setting, valid func(string) bool, is string) ([]string, error) {
	var all []string
	for name := range strings.SplitSeq(s.text, ",") {
		name = strings.TrimSpace(name)
		if !valid(name) {
			return nil, s.refuse("%q is none", name).because("--%s is %s", s.name, is).cure("--%s=NAME,NAME", s.name)
		}
		all = append(all, name)
	}
	return all, nil
}

var (
	dnsName  = regexp.MustCompile(`^(\*\.)?[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?)*$`)
	kubeName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?$`)
)

func validHost(s string) bool {
	return net.ParseIP(s) != nil || len(s) <= 253 && dnsName.MatchString(s)
}

// ownNames are those of this host.
func ownNames() []string {
	all := []string{"localhost", "127.0.0.1", "::1"}
	if name, err := os.Hostname(); err == nil && validHost(name) {
		all = append(all, name)
		if short, _, dotted := strings.Cut(name, "."); dotted {
			all = append(all, short)
		}
	}
	return all
}

// manifests are two Secrets: that of the servers, and that of the jobs, which must not have the
// servers' keys. The keys of the authorities are in neither.
func manifests(name string, made []certs.Made, client string) string {
	of := map[string]certs.Made{}
	for _, m := range made {
		of[m.Name] = m
	}
	server := []entry{{"ca.crt", of[certs.CA].Cert}, {"tls.crt", of["server"].Cert}, {"tls.key", of["server"].Key},
		{"peer-ca.crt", of[certs.PeerCA].Cert}, {"peer.crt", of["peer"].Cert}, {"peer.key", of["peer"].Key}}
	user := []entry{{"ca.crt", of[certs.CA].Cert}, {"client.crt", of[client].Cert}, {"client.key", of[client].Key}}
	return manifest(name, server) + "---\n" + manifest(name+"-client", user)
}

type entry struct {
	file    string
	content []byte
}

func manifest(name string, data []entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Secret\nmetadata: {name: %s}\ntype: Opaque\ndata:\n", name)
	for _, e := range data {
		fmt.Fprintf(&b, "  %s: %s\n", e.file, base64.StdEncoding.EncodeToString(e.content))
	}
	return b.String()
}
