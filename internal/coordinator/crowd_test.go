package coordinator_test

import (
	"errors"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/coordinator"
)

// etcd ends a process that has no descriptor left, so whoever holds connections to the pages must
// not get them all; and the pages still answer.
func TestPagesHaveFewConnections(t *testing.T) {
	l, err := coordinator.Config{Insecure: true}.ListenHTTP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.NotFoundHandler()}
	go srv.Serve(l)
	defer srv.Close()
	var held []net.Conn
	for range coordinator.MaxConnections + 1 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		held = append(held, c)
	}
	held[0].SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := held[0].Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the oldest of %d connections is still open: %v", len(held), err)
	}
	for range 2 * coordinator.MaxConnections { // each one leaves room when it ends
		c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		r, err := c.Get("http://" + l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
	}
}
