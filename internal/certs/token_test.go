package certs_test

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/certs"
)

// meet is one handshake between a server and a client.
func meet(t *testing.T, server, client *tls.Config) (serverErr, clientErr error) {
	t.Helper()
	a, b := net.Pipe()
	deadline := time.Now().Add(time.Minute)
	a.SetDeadline(deadline)
	b.SetDeadline(deadline)
	done := make(chan error, 1)
	go func() {
		s := tls.Server(a, server)
		err := s.Handshake()
		if err == nil {
			_, err = s.Write([]byte("x"))
		}
		a.Close()
		done <- err
	}()
	c := tls.Client(b, client)
	_, err := c.Read(make([]byte, 1))
	b.Close()
	return <-done, err
}

func settings(t *testing.T, f func() (*tls.Config, error)) *tls.Config {
	t.Helper()
	c, err := f()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Both sides meet only with one token, and a side cannot stand for the other one.
func TestToken(t *testing.T) {
	t.Parallel()
	ours, other := certs.NewToken(), certs.NewToken()
	stranger := &tls.Config{InsecureSkipVerify: true}
	squatter := settings(t, other.Server)
	squatter.VerifyConnection = nil
	mirrored := settings(t, ours.Client)
	mirrored.VerifyConnection = nil
	for name, c := range map[string]struct {
		server, client *tls.Config
		ok             bool
	}{
		"one token":                  {settings(t, ours.Server), settings(t, ours.Client), true},
		"a client with another":      {settings(t, ours.Server), settings(t, other.Client), false},
		"a client without":           {settings(t, ours.Server), stranger, false},
		"a squatter":                 {squatter, settings(t, ours.Client), false},
		"a client's key as a server": {mirrored, settings(t, ours.Client), false},
	} {
		server, client := meet(t, c.server, c.client)
		if (server == nil && client == nil) != c.ok {
			t.Errorf("%s: server %v, client %v", name, server, client)
		}
		if !c.ok && c.client != stranger && !errors.Is(client, certs.ErrOtherToken) {
			t.Errorf("%s: the client says %v", name, client)
		}
	}
}

// The name of a token does not tell it, and differs.
func TestTokenName(t *testing.T) {
	t.Parallel()
	a, err := certs.Token("the secret of these nodes").Name()
	b, berr := certs.Token("another secret of nodes!").Name()
	if err != nil || berr != nil || a == b || len(a) != 16 {
		t.Errorf("%s, %s: %v, %v", a, b, err, berr)
	}
}

func TestParseToken(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		string(certs.NewToken()): true, " " + string(certs.NewToken()) + "\n": true,
		"": false, "secret": false, strings.Repeat("x", 19): false, strings.Repeat("x", 20): true,
		"correct horse battery staple": false, strings.Repeat("x\x00", 20): false,
	} {
		if got, err := certs.ParseToken(text); (err == nil) != ok || ok && string(got) != strings.TrimSpace(text) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
