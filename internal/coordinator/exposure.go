package coordinator

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"

	"github.com/elasticd/elastic/internal/problem"
)

const (
	ClientSocket = "clients.sock" // in the data directory, which only its user can enter
	httpSocket   = "http.sock"
	socketMax    = 107 // the kernel's limit for the path of a socket
)

// TLS has the same file settings as etcd.
type TLS struct {
	Cert, Key, CA string
	ClientAuth    bool
}

func (t TLS) scheme() string {
	if t.Cert != "" {
		return "https"
	}
	return "http"
}

// check fails if a file is missing or cannot be read. flag is the prefix of the flags.
func (t TLS) check(flag string) error {
	switch {
	case (t.Cert == "") != (t.Key == ""):
		return usage(fmt.Sprintf("--%scert-file and --%[1]skey-file belong together", flag), "give both")
	case t.ClientAuth && t.CA == "":
		return usage(fmt.Sprintf("--%sclient-cert-auth needs an authority",
			flag), fmt.Sprintf("--%strusted-ca-file=FILE", flag))
	case t.CA != "" && t.Cert == "":
		return usage(fmt.Sprintf("--%strusted-ca-file without --%[1]scert-file has no effect",
			flag), fmt.Sprintf("--%scert-file and --%[1]skey-file too", flag))
	case t.Cert == "":
		return nil
	}
	pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return usage(fmt.Sprintf("--%scert-file=%s: %v", flag, t.Cert, err), "a PEM certificate and its key")
	}
	if now := time.Now(); now.After(pair.Leaf.NotAfter) || now.Before(pair.Leaf.NotBefore) {
		return usage(fmt.Sprintf("--%scert-file=%s is valid from %s to %s, and it is %s", flag, t.Cert,
			pair.Leaf.NotBefore.Format(time.RFC3339), pair.Leaf.NotAfter.Format(time.RFC3339),
			now.Format(time.RFC3339)), "renew it (elastic certs), or set the clock of this machine")
	}
	if t.CA == "" {
		return nil
	}
	if _, err := authorities(t.CA); err != nil {
		return usage(fmt.Sprintf("--%strusted-ca-file=%s: %v",
			flag, t.CA, err), "a PEM certificate of the authority")
	}
	return nil
}

// info makes etcd require a certificate of every client if there is a CA file. With ClientAuth the
// name in the certificate is the etcd user.
func (t TLS) info() transport.TLSInfo {
	return transport.TLSInfo{CertFile: t.Cert, KeyFile: t.Key, TrustedCAFile: t.CA,
		ClientCertAuth: t.ClientAuth}
}

// secure fails for settings without effect, and for addresses open to every client without
// --insecure.
func (c Config) secure() error {
	for _, side := range []struct {
		tls    TLS
		flag   string
		listen []url.URL
	}{{c.Clients, "", c.ListenClients}, {c.Peers, "peer-", c.ListenPeers}} {
		if err := side.tls.check(side.flag); err != nil {
			return err
		}
		if err := side.tls.checkURLs(side.flag, side.listen); err != nil {
			return err
		}
		for _, u := range side.listen {
			if err := c.checkExposure(side.tls, side.flag, u); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkURLs fails if the certificate and the URLs do not match.
func (t TLS) checkURLs(flag string, listen []url.URL) error {
	encrypted := func(u url.URL) bool { return u.Scheme == "https" || u.Scheme == "unixs" }
	if t.Cert != "" && len(listen) > 0 && !slices.ContainsFunc(listen, encrypted) {
		return usage(fmt.Sprintf("--%scert-file is given, but %s is not https", flag, &listen[0]),
			"https:// in the URL")
	}
	if t.Cert == "" && slices.ContainsFunc(listen, encrypted) {
		return usage(fmt.Sprintf("an https URL needs --%scert-file and --%[1]skey-file", flag),
			"both, or http://")
	}
	return nil
}

// checkExposure fails for an address that every client can use. A socket is private to its user, because
// the umask is 077. A TCP port is not, even on loopback, where all users of the machine can reach
// it.
func (c Config) checkExposure(t TLS, flag string, u url.URL) error {
	if u.Scheme == "unix" || u.Scheme == "unixs" {
		return checkSocket(u.Host + u.Path)
	}
	if c.Insecure || u.Scheme == "https" && t.CA != "" || flag == "" && c.Secret != "" {
		return nil
	}
	return open(u.String(), "can read and change every job",
		fmt.Sprintf("https:// with --%scert-file, --%[1]skey-file and --%[1]strusted-ca-file", flag))
}

func open(address, can, fix string) error {
	return problem.New(problem.Listen, "%s is open to every client", address).
		Because("without certificates of clients, every user of every machine that reaches it %s", can).
		Cure("%s (elastic certs makes them); or --insecure, where every user that reaches it may", fix)
}

// checkSocket fails for a path that is too long, or that permissions do not protect.
func checkSocket(path string) error {
	if !filepath.IsAbs(path) { // also "@name", which has no permissions
		return usage(fmt.Sprintf("%q is not the absolute path of a socket", path), "unix:///DIR/NAME")
	}
	if len(path) > socketMax {
		return problem.New(problem.Listen, "the path of the socket %s has %d characters", path, len(path)).
			Because("the kernel takes %d", socketMax).
			Cure("a shorter --data-dir, or --listen-client-urls=unix:///SHORT/PATH and --http=unix:/SHORT/PATH")
	}
	return nil
}

// socketPath returns the path of --http=unix:PATH.
func socketPath(address string) (path string, ok bool) {
	path, ok = strings.CutPrefix(address, "unix:")
	return strings.TrimPrefix(path, "//"), ok
}
