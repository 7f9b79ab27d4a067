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

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/elasticd/elastic/internal/etcdtest"
	"github.com/elasticd/elastic/pkg/store/etcd"
)

// issue writes NAME.pem and NAME-key.pem, signed by parent or by itself.
func issue(t *testing.T, dir, name string, ca bool, parent *x509.Certificate,
	parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
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
		"all files":      {etcd.Config{CACert: file("ca"), Cert: file("client"), Key: file("client-key")}, nil},
		"no certificate": {etcd.Config{CACert: file("ca")}, etcd.ErrCertRefused},
		"a stranger's": {etcd.Config{CACert: file("ca"), Cert: file("stranger"), Key: file("stranger-key")},
			etcd.ErrCertRefused},
		"no authority": {etcd.Config{Cert: file("client"), Key: file("client-key")}, etcd.ErrCertTrust},
		"another name": {etcd.Config{CACert: file("ca"), Cert: file("client"), Key: file("client-key"),
			Endpoints: []string{"https://localhost:" + host[strings.LastIndex(host, ":")+1:]}}, etcd.ErrCertName},
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
		"a password over http":   {etcd.Config{Endpoints: []string{"http://" + host}, User: "me"}, etcd.ErrPlain},
		"one endpoint of two": {etcd.Config{Endpoints: []string{"unix:///s", "http://" + host}, User: "me"},
			etcd.ErrPlain},
		"an authority and http": {etcd.Config{Endpoints: []string{"http://" + host}, CACert: file("ca")},
			etcd.ErrPlain},
		"an authority without file": {etcd.Config{Endpoints: []string{host}, CACert: file("none")}, etcd.ErrTLSFiles},
		"a certificate without key": {etcd.Config{Endpoints: []string{host}, Cert: file("client")}, etcd.ErrTLSFiles},
		"a password in TLS":         {etcd.Config{Endpoints: []string{"https://" + host}, User: "me"}, nil},
		"a password at a socket":    {etcd.Config{Endpoints: []string{"unix:///s"}, User: "me"}, nil},
	} {
		if s, err := etcd.Open(t.Context(), c.config); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, %v; want %v", name, s, err, c.want)
		}
	}
	plain := open(t, etcd.Config{Endpoints: []string{host}})
	if err := plain.Probe(t.Context()); !errors.Is(err, etcd.ErrWantsTLS) ||
		!strings.Contains(err.Error(), "it speaks TLS") {
		t.Errorf("asked without TLS: %v", err)
	}
}
