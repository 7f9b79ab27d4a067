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

// ErrStranger means that the process at an address does not know the job's secret.
var ErrStranger = errors.New("the process that answers is not of this job")

// identity is the key pair that all agents of a job share.
type identity struct {
	cert tls.Certificate
	key  ed25519.PublicKey
}

// identify derives the key pair from the secret.
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
	// TLS needs a certificate for the key. Peers do not check its fields, nor its dates, because
	// clocks may be wrong.
	form := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0),
		NotAfter: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, form, form, public, private)
	if err != nil {
		return identity{}, fmt.Errorf("make the peer certificate: %w", err)
	}
	return identity{cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, key: public}, nil
}

// config returns the TLS configuration of both ends. It pins the public key instead of checking
// authorities and names. The handshake proves that the peer has the private key.
func (id identity) config(protos ...string) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{id.cert},
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // VerifyConnection checks the key
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
