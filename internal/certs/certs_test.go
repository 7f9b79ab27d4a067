package certs_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/certs"
	"github.com/elasticd/elastic/internal/regular"
)

func make2(t *testing.T, dir string) map[string]certs.Made {
	t.Helper()
	made, err := certs.Make(certs.Request{Dir: dir, Hosts: []string{"lab1", "127.0.0.1"},
		Clients: []string{"client", "ada"},
		Life:    24 * time.Hour, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]certs.Made{}
	for _, m := range made {
		all[m.Name] = m
	}
	return all
}

func pool(t *testing.T, m certs.Made) *x509.CertPool {
	t.Helper()
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(m.Cert) {
		t.Fatal("no certificate")
	}
	return p
}

// handshake is one between a server and a client, both of which check each other.
func handshake(t *testing.T, server certs.Made, clientCA *x509.CertPool, client *certs.Made,
	serverCA *x509.CertPool, name string) error {
	t.Helper()
	pair := func(m certs.Made) tls.Certificate {
		c, err := tls.X509KeyPair(m.Cert, m.Key)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			done <- err
			return
		}
		defer c.Close()
		done <- tls.Server(c, &tls.Config{Certificates: []tls.Certificate{pair(server)}, ClientCAs: clientCA,
			ClientAuth: tls.RequireAndVerifyClientCert}).Handshake()
	}()
	conf := &tls.Config{RootCAs: serverCA, ServerName: name}
	if client != nil {
		conf.Certificates = []tls.Certificate{pair(*client)}
	}
	c, err := tls.Dial("tcp", l.Addr().String(), conf)
	if err == nil {
		defer c.Close()
	}
	return errors.Join(err, <-done)
}

func TestCertificatesThatAreAccepted(t *testing.T) {
	all, others := make2(t, t.TempDir()), make2(t, t.TempDir())
	ca, peerCA := pool(t, all["ca"]), pool(t, all["peer-ca"])
	client, peer, server, stranger := all["client"], all["peer"], all["server"], others["client"]
	for name, c := range map[string]struct {
		err error
		ok  bool
	}{
		"a client":                    {handshake(t, server, ca, &client, ca, "lab1"), true},
		"a client, by address":        {handshake(t, server, ca, &client, ca, "127.0.0.1"), true},
		"a member":                    {handshake(t, peer, peerCA, &peer, peerCA, "lab1"), true},
		"the server, of another":      {handshake(t, server, ca, &server, ca, "lab1"), true},
		"another name":                {handshake(t, server, ca, &client, ca, "lab2"), false},
		"no certificate":              {handshake(t, server, ca, nil, ca, "lab1"), false},
		"a client of another lab":     {handshake(t, server, ca, &stranger, ca, "lab1"), false},
		"a client that poses as one":  {handshake(t, client, ca, &client, ca, "client"), false},
		"a client at a member's port": {handshake(t, peer, peerCA, &client, peerCA, "lab1"), false},
		"a member at a client's port": {handshake(t, server, ca, &peer, ca, "lab1"), false},
		"a server of another lab": {handshake(t, others["server"], pool(t, others["ca"]), &stranger, ca,
			"lab1"),
			false},
	} {
		if (c.err == nil) != c.ok {
			t.Errorf("%s: %v", name, c.err)
		}
	}
}

// Made again, the authorities stay, so that what they signed before is still believed.
func TestRenewal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	before, after := make2(t, dir), make2(t, dir)
	if !bytes.Equal(before["ca"].Cert, after["ca"].Cert) ||
		!bytes.Equal(before["peer-ca"].Key, after["peer-ca"].Key) {
		t.Error("an authority was made anew")
	}
	if bytes.Equal(before["server"].Cert, after["server"].Cert) {
		t.Error("the server's certificate is the old one")
	}
	old := before["client"]
	if err := handshake(t, after["server"], pool(t, after["ca"]), &old, pool(t, before["ca"]),
		"lab1"); err != nil {
		t.Error(err)
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 12 {
		t.Errorf("%v, %v", list, err)
	}
	for _, e := range list {
		if st, err := e.Info(); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), st.Mode(), err)
		}
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", st, err)
	}
}

// What another user could have planted, or read, is no authority. A certificate for every name is
// none.
func TestForeignAuthority(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("only root can make files of another user")
	}
	for name, change := range map[string]func(dir string) error{
		"a directory that all can write":   func(dir string) error { return os.Chmod(dir, 0o777) },
		"a directory that a group can":     func(dir string) error { return os.Chmod(dir, 0o770) },
		"a directory of another user":      func(dir string) error { return os.Chown(dir, 65534, 65534) },
		"a key that all can read":          func(dir string) error { return os.Chmod(filepath.Join(dir, "ca.key"), 0o644) },
		"a key of another user":            func(dir string) error { return os.Chown(filepath.Join(dir, "ca.key"), 65534, 0) },
		"a certificate of another user":    func(dir string) error { return os.Chown(filepath.Join(dir, "ca.crt"), 65534, 0) },
		"a key of members all can read":    func(dir string) error { return os.Chmod(filepath.Join(dir, "peer-ca.key"), 0o604) },
		"a certificate that all can write": func(dir string) error { return os.Chmod(filepath.Join(dir, "ca.crt"), 0o666) },
	} {
		dir := t.TempDir()
		make2(t, dir)
		if err := change(dir); err != nil {
			t.Fatal(err)
		}
		_, err := certs.Make(certs.Request{Dir: dir, Hosts: []string{"a"}, Life: time.Hour, Now: time.Now()})
		if !errors.Is(err, certs.ErrAuthority) || !errors.Is(err, regular.ErrForeign) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, host := range []string{"*", "*.lab", "0.0.0.0", "::", "", "a b", "a/b"} {
		_, err := certs.Make(certs.Request{Dir: t.TempDir(), Hosts: []string{"a", host}, Life: time.Hour,
			Now: time.Now()})
		if !errors.Is(err, certs.ErrHost) {
			t.Errorf("%q: %v", host, err)
		}
	}
}

// An authority of which a part is missing or damaged is never replaced: what it signed would be
// void.
func TestDamagedAuthority(t *testing.T) {
	for name, damage := range map[string]func(dir string) error{
		"no key":         func(dir string) error { return os.Remove(filepath.Join(dir, "ca.key")) },
		"no certificate": func(dir string) error { return os.Remove(filepath.Join(dir, "peer-ca.crt")) },
		"garbage": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("x"), 0o600)
		},
		"another's key": func(dir string) error {
			return os.Rename(filepath.Join(dir, "peer-ca.key"), filepath.Join(dir, "ca.key"))
		},
		"no authority": func(dir string) error {
			return errors.Join(os.Rename(filepath.Join(dir, "client.key"), filepath.Join(dir, "ca.key")),
				os.Rename(filepath.Join(dir, "client.crt"), filepath.Join(dir, "ca.crt")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			make2(t, dir)
			if err := damage(dir); err != nil {
				t.Fatal(err)
			}
			_, err := certs.Make(
				certs.Request{Dir: dir, Hosts: []string{"a"}, Life: time.Hour, Now: time.Now()})
			if !errors.Is(err, certs.ErrAuthority) {
				t.Error(err)
			}
		})
	}
	dir := t.TempDir()
	make2(t, dir)
	_, err := certs.Make(certs.Request{Dir: dir, Life: time.Hour, Now: time.Now().AddDate(11, 0, 0)})
	if !errors.Is(err, certs.ErrAuthority) {
		t.Errorf("an authority that expired: %v", err)
	}
}
