package peer

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// ErrStranger: the process that answers does not know the job's secret.
var ErrStranger = errors.New("the process that answers is not of this job")

// identity is the key pair that all agents of a job share.
type identity struct {
	cert tls.Certificate
	key  ed25519.PublicKey
}

// identify derives the identity from the secret: only a process that knows the secret has it.
func identify(secret []byte) (identity, error) {
	if len(secret) < 16 {
		return identity{}, fmt.Errorf("the job's secret has only %d bytes", len(secret))
	}
	seed, err := hkdf.Key(sha256.New, secret, nil, "elastic/v1 peer", ed25519.SeedSize)
	if err != nil {
		return identity{}, fmt.Errorf("derive the peer key: %w", err)
	}
	private := ed25519.NewKeyFromSeed(seed)
	public := private.Public().(ed25519.PublicKey)
	// TLS wants a certificate around the key. It is not read, nor are its dates: clocks may
	// be wrong.
	form := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0),
		NotAfter: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, form, form, public, private)
	if err != nil {
		return identity{}, fmt.Errorf("make the peer certificate: %w", err)
	}
	return identity{cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, key: public}, nil
}

// config is the same for both ends. The pin takes the place of authorities and names; that the
// other end has the private key too, the handshake itself proves.
func (id identity) config(protos ...string) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{id.cert},
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // VerifyConnection does it
		VerifyConnection:       id.verify,
		NextProtos:             protos,
		SessionTicketsDisabled: true,
	}
}

func (id identity) verify(s tls.ConnectionState) error {
	if len(s.PeerCertificates) == 0 || s.NegotiatedProtocol == "" ||
		!id.key.Equal(s.PeerCertificates[0].PublicKey) {
		return ErrStranger
	}
	return nil
}
