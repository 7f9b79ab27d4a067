package certs

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"
	"unicode"
)

// Token is a secret that a server and its clients share. Each side derives from it the keys of
// both, and accepts no other key, so neither talks to a stranger. No certificate file and no clock
// is involved.
//
// A client that does not know the token still sees the public key of the server, and could search
// for the token. So a token has at least tokenMin characters, and ours are random.
type Token string

const tokenMin = 20

var (
	// ErrToken means that a text cannot be a token.
	ErrToken = errors.New("not a token")
	// ErrOtherToken means that the other side does not know our token.
	ErrOtherToken = errors.New("the other side has another token")
)

// NewToken makes a token of 130 random bits.
func NewToken() Token { return Token(rand.Text()) }

// ParseToken reads a token. Space around it does not count. Errors: ErrToken.
func ParseToken(text string) (Token, error) {
	text = strings.TrimSpace(text)
	if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return "", fmt.Errorf("%w: it is not one word", ErrToken)
	}
	if len(text) < tokenMin {
		return "", fmt.Errorf("%w: it has %d characters, and a stranger could guess fewer than %d",
			ErrToken, len(text), tokenMin)
	}
	return Token(text), nil
}

// Name identifies a token without telling it.
func (t Token) Name() (string, error) {
	b, err := t.derive("name", 8)
	return hex.EncodeToString(b), err
}

// side is one side of a connection. Each has a key of its own, so that a client cannot answer for
// the server with the key that it presents.
type side string

const (
	serverSide side = "server"
	clientSide side = "client"
)

// Server returns the settings of the server, which accepts only clients that know the token.
func (t Token) Server() (*tls.Config, error) { return t.config(serverSide, clientSide) }

// Client returns the settings of a client, which accepts only a server that knows the token.
// Requests that it refuses fail with the text of ErrOtherToken.
func (t Token) Client() (*tls.Config, error) { return t.config(clientSide, serverSide) }

func (t Token) config(own, other side) (*tls.Config, error) {
	pair, err := t.certificate(own)
	if err != nil {
		return nil, err
	}
	key, err := t.key(other)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{pair},
		// The pinned key replaces the check of names and authorities, on both sides.
		InsecureSkipVerify: true,
		ClientAuth:         tls.RequireAnyClientCert,
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || !key.Public().(ed25519.PublicKey).
				Equal(s.PeerCertificates[0].PublicKey) {
				return ErrOtherToken
			}
			return nil
		},
		SessionTicketsDisabled: true,
	}, nil
}

// key returns the key of a side. It is the same for each process that knows the token.
func (t Token) key(s side) (ed25519.PrivateKey, error) {
	seed, err := t.derive(string(s), ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

func (t Token) derive(what string, size int) ([]byte, error) {
	return hkdf.Key(sha256.New, []byte(t), nil, "elastic token v1 "+what, size)
}

// certificate wraps the key of a side, because TLS carries keys in certificates. The other side
// looks at nothing but the key.
func (t Token) certificate(s side) (tls.Certificate, error) {
	key, err := t.key(s)
	if err != nil {
		return tls.Certificate{}, err
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "elastic"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0), KeyUsage: x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a certificate of the token: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
