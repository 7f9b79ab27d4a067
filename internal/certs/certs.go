// Package certs makes certificates for a test setup: an authority for the server and its clients,
// an authority for the members of a cluster, and the certificates that they sign.
//
// There are two authorities because etcd accepts every certificate of its members' authority as
// that of a member. With one authority for both, a client could pose as a member.
package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	clockSkew     = time.Hour // how far the clock of a machine may be behind
)

// Pair is a certificate and its key, both in PEM.
type Pair struct{ Cert, Key []byte }

// Authority signs certificates.
type Authority struct {
	Pair
	cert *x509.Certificate
	key  crypto.Signer
}

// NewAuthority makes an authority with a self-signed certificate.
func NewAuthority(name string, now time.Time) (*Authority, error) {
	form, err := template(name, now, authorityLife)
	if err != nil {
		return nil, err
	}
	form.IsCA, form.BasicConstraintsValid, form.MaxPathLenZero = true, true, true
	form.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	pair, err := sign(form, form, key, key)
	if err != nil {
		return nil, err
	}
	return ReadAuthority(pair)
}

// ReadAuthority reads the certificate and key of an authority.
func ReadAuthority(p Pair) (*Authority, error) {
	block, _ := pem.Decode(p.Cert)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("no PEM certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, err
	}
	if block, _ = pem.Decode(p.Key); block == nil {
		return nil, errors.New("no PEM key")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(crypto.Signer)
	public, comparable := cert.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !comparable || !public.Equal(key.Public()) {
		return nil, errors.New("the key is not that of the certificate")
	}
	if !cert.IsCA {
		return nil, errors.New("it is no authority")
	}
	return &Authority{Pair: p, cert: cert, key: key}, nil
}

// Use says for whom a certificate is.
type Use int

const (
	Server Use = iota // elasticd; it is also a client of the other members
	Peer              // a member, for connections to the others
	Client            // a user of the server; the name of the certificate is the user of etcd
)

// Spec describes a certificate to sign.
type Spec struct {
	Use   Use
	Name  string
	Hosts []string // names and addresses that clients dial; none for a client
	Life  time.Duration
}

// Sign makes a key and a certificate for it.
func (a *Authority) Sign(s Spec, now time.Time) (Pair, error) {
	form, err := template(s.Name, now, s.Life)
	if err != nil {
		return Pair{}, err
	}
	if form.NotAfter.After(a.cert.NotAfter) {
		form.NotAfter = a.cert.NotAfter // a certificate is not valid after its authority's end
	}
	form.KeyUsage = x509.KeyUsageDigitalSignature
	form.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if s.Use != Client {
		form.ExtKeyUsage = append(form.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, h := range s.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			form.IPAddresses = append(form.IPAddresses, ip)
		} else {
			form.DNSNames = append(form.DNSNames, h)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make a key: %w", err)
	}
	return sign(form, a.cert, key, a.key)
}

func template(name string, now time.Time, life time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	return &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(life)}, nil
}

func sign(form, parent *x509.Certificate, key, by crypto.Signer) (Pair, error) {
	der, err := x509.CreateCertificate(rand.Reader, form, parent, key.Public(), by)
	if err != nil {
		return Pair{}, fmt.Errorf("sign %s: %w", form.Subject.CommonName, err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("write the key of %s: %w", form.Subject.CommonName, err)
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}, nil
}
