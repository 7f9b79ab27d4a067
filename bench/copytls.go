package main

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"time"
)

// copyTLS copies a file through TLS 1.3 over the loopback interface, and syncs the copy.
func copyTLS(from, to string) error {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(nil, form, form, public, private)
	if err != nil {
		return err
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, // both ends are this function
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}},
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		return err
	}
	defer listener.Close()
	received := make(chan error, 1)
	go func() { received <- receive(listener, to) }()
	sent := send(listener.Addr().String(), config, from)
	if sent != nil {
		listener.Close()
	}
	return errors.Join(sent, <-received)
}

// bufferSize is the size of the buffer of one copy.
const bufferSize = 128 << 10

func send(addr string, config *tls.Config, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	c, err := tls.Dial("tcp", addr, config)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(c, struct{ io.Reader }{in}, make([]byte, bufferSize))
	return errors.Join(err, c.Close())
}

func receive(l net.Listener, to string) error {
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{out}, c, make([]byte, bufferSize))
	return errors.Join(err, out.Sync(), out.Close())
}
