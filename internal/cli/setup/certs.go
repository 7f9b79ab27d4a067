package setup

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
	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/internal/regular"
	"github.com/elasticd/elastic/pkg/schema"
)

// Certs is the command that makes certificates.
func Certs() command.Command {
	return command.Command{Name: "certs",
		Usage:  "certificates for a lab: an authority, server, members and clients",
		Action: certsAction, Flags: []command.Flag{
			{Name: "dir", Arg: "DIR", Usage: "directory of the files (certs)"},
			{Name: "host", Arg: "NAME,…",
				Usage: "names and addresses under which elasticd is dialled (this host)"},
			{Name: "client", Arg: "NAME,…", Usage: "users of the server (client)"},
			{Name: "days", Arg: "N", Usage: "how long the certificates are valid (365)"},
			{Name: "kubernetes", Arg: "NAME",
				Usage: "print Secrets NAME (server) and NAME-client for kubectl apply"},
		}}
}

// certificate is the output for one certificate.
type certificate struct {
	File  string    `json:"file"`
	Key   string    `json:"key"`
	For   string    `json:"for"`
	Hosts []string  `json:"hosts"`
	Until time.Time `json:"until"`
}

func certsAction(_ context.Context, c *command.Call) error {
	r, err := certsRequest(c)
	if err != nil {
		return err
	}
	secret := c.Setting("kubernetes")
	if secret.Given && !kubeName.MatchString(secret.Text) {
		return secret.Refuse("not a name of Kubernetes").
			Because("a Secret has a name of small letters, digits and '-'").Cure("--kubernetes=elasticd")
	}
	made, err := certs.Make(r)
	switch {
	case errors.Is(err, certs.ErrHost):
		return problem.New(problem.Usage, "--host: %v", err).
			Because("a certificate for every server would let any of them pose as this one").
			Cure("--host=NAME,ADDRESS: the names and addresses under which this elasticd is dialled")
	case errors.Is(err, regular.ErrForeign):
		return problem.New(problem.Failed, "%v", err).
			Because("whoever could write there could have planted an authority, or knows its key").
			Cure("--dir=DIR, a new directory; or chmod 700 it if nobody else was there")
	case errors.Is(err, certs.ErrAuthority):
		return problem.New(problem.Failed, "%v", err).
			Because("certificates of this authority would not be valid with a new one").
			Cure("put its files back; or begin anew in another --dir, and give the new files to every " +
				"server and client")
	case err != nil:
		return problem.New(problem.Failed, "%v", err).
			Because("the certificates could not be written").
			Cure("--dir=DIR in a directory of yours, on a disk with space")
	}
	if secret.Given {
		_, err := io.WriteString(c.Stdout, manifests(secret.Text, made, r.Clients[0]))
		return err
	}
	return showCerts(c, r, made)
}

func showCerts(c *command.Call, r certs.Request, made []certs.Made) error {
	dir := r.Dir
	all := []certificate{}
	rows := [][]string{{"FILE", "FOR", "NAMES", "VALID UNTIL"}}
	for _, m := range made {
		hosts := m.Hosts
		if hosts == nil {
			hosts = []string{}
		}
		all = append(all, certificate{dir + "/" + m.Name + ".crt", dir + "/" + m.Name + ".key", m.For, hosts,
			m.Until.UTC().Truncate(time.Second)})
		rows = append(rows, []string{dir + "/" + m.Name + ".crt", m.For, orDash(strings.Join(hosts, ",")),
			m.Until.UTC().Format(time.DateOnly)})
	}
	if c.Out.Json {
		return c.Out.Object(all)
	}
	c.Out.Say("elasticd --listen-client-urls=https://0.0.0.0:2379 --cert-file=%s/server.crt "+
		"--key-file=%[1]s/server.key --trusted-ca-file=%[1]s/ca.crt", dir)
	c.Out.Say("elastic status --server=https://HOST:2379 --cacert=%s/ca.crt --cert=%[1]s/%[2]s.crt "+
		"--key=%[1]s/%[2]s.key", dir, r.Clients[0])
	c.Out.Say("with --http=0.0.0.0:9100 elasticd serves the page and /metrics over https as well: "+
		"curl --cacert %s/ca.crt --cert %[1]s/%[2]s.crt --key %[1]s/%[2]s.key https://HOST:9100/metrics",
		dir, r.Clients[0])
	c.Out.Say("ca.key and peer-ca.key sign further certificates; neither servers nor clients need them")
	return c.Out.Table(rows)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func certsRequest(c *command.Call) (certs.Request, error) {
	r := certs.Request{Dir: "certs", Hosts: ownNames(), Clients: []string{"client"}, Now: time.Now()}
	if d := c.Setting("dir"); d.Given {
		if d.Text == "" {
			return r, d.Refuse("no directory").Cure("--dir=certs")
		}
		r.Dir = strings.TrimRight(d.Text, "/")
	}
	days, err := c.Setting("days").Number(365, 1)
	if err != nil {
		return r, err
	}
	if days > 3650 {
		return r, c.Setting("days").Refuse("at most 3650").
			Because("the authority is valid for ten years").Cure("--days=365")
	}
	r.Life = time.Duration(days) * 24 * time.Hour
	if h := c.Setting("host"); h.Given {
		if r.Hosts, err = names(h, validHost, "a name or address that clients dial"); err != nil {
			return r, err
		}
		for _, here := range []string{"localhost", "127.0.0.1", "::1"} { // for local clients
			if !slices.Contains(r.Hosts, here) {
				r.Hosts = append(r.Hosts, here)
			}
		}
	}
	if n := c.Setting("client"); n.Given {
		valid := func(s string) bool {
			return schema.ValidName(s) && !slices.Contains([]string{"ca", "peer-ca", "server", "peer"}, s)
		}
		if r.Clients, err = names(n, valid, "a name as of a job, and not that of another file"); err != nil {
			return r, err
		}
	}
	return r, nil
}

// names splits a list, and checks each name.
func names(s command.Setting, valid func(string) bool, is string) ([]string, error) {
	var all []string
	for name := range strings.SplitSeq(s.Text, ",") {
		name = strings.TrimSpace(name)
		if !valid(name) {
			return nil, s.Refuse("%q is none", name).Because("--%s is %s", s.Name, is).
				Cure("--%s=NAME,NAME", s.Name)
		}
		all = append(all, name)
	}
	return all, nil
}

var (
	dnsName = regexp.MustCompile(
		`^(\*\.)?[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?)*$`)
	kubeName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?$`)
)

func validHost(s string) bool {
	return net.ParseIP(s) != nil || len(s) <= 253 && dnsName.MatchString(s)
}

// ownNames returns the names of this host.
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

// manifests returns two Secrets: one for the servers, and one for the jobs, which has no keys of
// the servers. Neither has the keys of the authorities.
func manifests(name string, made []certs.Made, client string) string {
	of := map[string]certs.Made{}
	for _, m := range made {
		of[m.Name] = m
	}
	server := []entry{{"ca.crt", of[certs.CA].Cert}, {"tls.crt", of["server"].Cert},
		{"tls.key", of["server"].Key},
		{"peer-ca.crt", of[certs.PeerCA].Cert}, {"peer.crt", of["peer"].Cert}, {"peer.key", of["peer"].Key}}
	user := []entry{{"ca.crt", of[certs.CA].Cert}, {"client.crt", of[client].Cert},
		{"client.key", of[client].Key}}
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
