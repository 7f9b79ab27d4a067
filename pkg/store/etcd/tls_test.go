package etcd_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/elasticd/elastic/internal/etcdtest"
	"github.com/elasticd/elastic/pkg/store/etcd"
)

// issue writes NAME.pem and NAME-key.pem, signed by parent or by itself.
func issue(
	t *testing.T, dir, name string, ca bool, parent *x509.Certificate, parentKey *ecdsa.PrivateKey,
) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: ca, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	if parent == nil {
		parent, parentKey = cert, key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		name + ".pem":     {Type: "CERTIFICATE", Bytes: der},
		name + "-key.pem": {Type: "EC PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	ca, key := issue(t, dir, "ca", true, nil, nil)
	issue(t, dir, "server", false, ca, key)
	issue(t, dir, "client", false, ca, key)
	issue(t, dir, "stranger", false, nil, nil)
	file := func(name string) string { return filepath.Join(dir, name+".pem") }

	server := etcdtest.Start(t, etcdtest.TCP(), etcdtest.Config(func(c *embed.Config) {
		c.ListenClientUrls[0].Scheme, c.AdvertiseClientUrls[0].Scheme = "https", "https"
		c.ClientTLSInfo = transport.TLSInfo{CertFile: file("server"), KeyFile: file("server-key"),
			TrustedCAFile: file("ca"), ClientCertAuth: true}
	}))
	host := strings.TrimPrefix(server.Endpoint(), "http://")
	for name, c := range map[string]struct {
		config etcd.Config
		want   error
	}{
		"all files": {etcd.Config{CACert: file("ca"), Cert: file("client"), Key: file("client-key")},
			nil},
		"no certificate": {etcd.Config{CACert: file("ca")}, etcd.ErrCertRefused},
		"a stranger's": {etcd.Config{CACert: file("ca"), Cert: file("stranger"), Key: file("stranger-key")},
			etcd.ErrCertRefused},
		"no authority": {etcd.Config{Cert: file("client"), Key: file("client-key")}, etcd.ErrCertTrust},
		"another name": {etcd.Config{CACert: file("ca"), Cert: file("client"), Key: file("client-key"),
			Endpoints: []string{"https://localhost:" + host[strings.LastIndex(host, ":")+1:]}},
			etcd.ErrCertName},
	} {
		t.Run(name, func(t *testing.T) {
			endpoints := c.config.Endpoints
			if endpoints == nil {
				endpoints = []string{"https://" + host, host}
			}
			for _, e := range endpoints {
				c.config.Endpoints = []string{e}
				s := open(t, c.config)
				if err := s.Probe(t.Context()); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
					t.Errorf("%s: %v, want %v", e, err, c.want)
				}
			}
		})
	}
	for name, c := range map[string]struct {
		config etcd.Config
		want   error
	}{
		"a password without TLS": {etcd.Config{Endpoints: []string{host}, User: "me"}, etcd.ErrPlain},
		"a password over http": {etcd.Config{Endpoints: []string{"http://" + host}, User: "me"},
			etcd.ErrPlain},
		"one endpoint of two": {etcd.Config{Endpoints: []string{"unix:///s", "http://" + host}, User: "me"},
			etcd.ErrPlain},
		"an authority and http": {etcd.Config{Endpoints: []string{"http://" + host}, CACert: file("ca")},
			etcd.ErrPlain},
		"an authority without file": {etcd.Config{Endpoints: []string{host}, CACert: file("none")},
			etcd.ErrTLSFiles},
		"a certificate without key": {etcd.Config{Endpoints: []string{host}, Cert: file("client")},
			etcd.ErrTLSFiles},
		"a password in TLS":      {etcd.Config{Endpoints: []string{"https://" + host}, User: "me"}, nil},
		"a password at a socket": {etcd.Config{Endpoints: []string{"unix:///s"}, User: "me"}, nil},
	} {
		if s, err := etcd.Open(t.Context(), c.config); !errors.Is(err, c.want) ||
			(err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, %v; want %v", name, s, err, c.want)
		}
	}
	plain := open(t, etcd.Config{Endpoints: []string{host}})
	if err := plain.Probe(t.Context()); !errors.Is(err, etcd.ErrWantsTLS) ||
		!strings.Contains(err.Error(), "it speaks TLS") {
		t.Errorf("asked without TLS: %v", err)
	}
}

// A given user name counts, and not the one in the certificate, in the first request as in later
// ones.
func TestUserBesideACertificate(t *testing.T) {
	dir := t.TempDir()
	ca, key := issue(t, dir, "ca", true, nil, nil)
	issue(t, dir, "server", false, ca, key)
	issue(t, dir, "root", false, ca, key)
	file := func(name string) string { return filepath.Join(dir, name+".pem") }
	server := etcdtest.Start(t, etcdtest.TCP(), etcdtest.Config(func(c *embed.Config) {
		c.ListenClientUrls[0].Scheme, c.AdvertiseClientUrls[0].Scheme = "https", "https"
		c.ClientTLSInfo = transport.TLSInfo{CertFile: file("server"), KeyFile: file("server-key"),
			TrustedCAFile: file("ca"), ClientCertAuth: true}
	}))
	at := "https://" + strings.TrimPrefix(server.Endpoint(), "http://")
	files := transport.TLSInfo{TrustedCAFile: file("ca"), CertFile: file("root"), KeyFile: file("root-key")}
	conf, err := files.ClientConfig()
	must(t, err)
	root, err := clientv3.New(clientv3.Config{Endpoints: []string{at}, TLS: conf})
	must(t, err)
	defer root.Close()
	for _, name := range []string{"root", "reader"} {
		_, err := root.UserAdd(t.Context(), name, "secret")
		must(t, err)
	}
	_, err = root.UserGrantRole(t.Context(), "root", "root")
	must(t, err)
	_, err = root.AuthEnable(t.Context())
	must(t, err)
	certified := etcd.Config{Endpoints: []string{at}, CACert: file("ca"), Cert: file("root"),
		Key: file("root-key")}
	as := func(user string) etcd.Config {
		c := certified
		c.User, c.Password = user, "secret"
		return c
	}
	for name, c := range map[string]struct {
		config etcd.Config
		want   error
	}{
		"the user of the certificate":       {certified, nil},
		"the same with its password":        {as("root"), nil},
		"another user, without permissions": {as("reader"), rpctypes.ErrPermissionDenied},
		"a user that there is not":          {as("nobody"), rpctypes.ErrAuthFailed},
	} {
		s := open(t, c.config)
		for range 2 {
			if _, err := s.Get(t.Context(), "/k", ""); !errors.Is(err, c.want) ||
				(err == nil) != (c.want == nil) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
