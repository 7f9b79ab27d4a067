package peer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/elasticd/elastic/pkg/membership"
)

func chunkServer(t testing.TB, l limits) *agent {
	b := newAgent("b", "b1").serve(t, secret, l)
	b.srv.Handle("GET /chunks/{hash}", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "chunk "+r.PathValue("hash"))
	}))
	b.srv.Handle("PUT /chunks/{hash}", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		if _, err := io.Copy(sum, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		fmt.Fprintf(w, "%x", sum.Sum(nil))
	}))
	return b
}

func fetch(t *testing.T, rt http.RoundTripper, method, url string, body io.Reader) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Client{Transport: rt}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func TestChunks(t *testing.T) {
	a, b := newAgent("a", "a1"), chunkServer(t, defaultLimits())
	a.change(func(h *Hello) { h.Generation = 4 })
	c := a.client(t, secret)
	// The host in the URL does not count: the request goes where the Ref says.
	if code, got := fetch(t, c.To(b.ref()), "GET", "http://elsewhere.example/chunks/77", nil); code != 200 ||
		got != "chunk 77" {
		t.Errorf("%d %s", code, got)
	}
	if g := <-b.heard; g != 4 {
		t.Errorf("the holder heard %d", g)
	}
	b.change(func(h *Hello) { h.Generation = 6 })
	data := bytes.Repeat([]byte("elastic "), 1<<20)
	if code, got := fetch(t, c.To(b.ref()), "PUT", "http://b/chunks/77",
		bytes.NewReader(data)); code != 200 ||
		got != fmt.Sprintf("%x", sha256.Sum256(data)) {
		t.Errorf("%d %s", code, got)
	}
	if g := <-a.heard; g != 6 {
		t.Errorf("the fetcher heard %d", g)
	}
}

func TestChunksOfAnotherLife(t *testing.T) {
	b := chunkServer(t, defaultLimits())
	c := newAgent("a", "a1").client(t, secret)
	was := b.ref()
	b.change(func(h *Hello) { h.Incarnation = "b2" })
	if code, _ := fetch(t, c.To(was), "GET", "http://b/chunks/77",
		nil); code != http.StatusMisdirectedRequest {
		t.Errorf("status %d", code)
	}
}

func TestChunksOfAStranger(t *testing.T) {
	b := chunkServer(t, defaultLimits())
	c := newAgent("a", "a1").client(t, []byte(strings.Repeat("z", 32)))
	r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://b/chunks/77", nil)
	if _, err := c.To(b.ref()).RoundTrip(r); !errors.Is(err, ErrStranger) {
		t.Errorf("%v", err)
	}
}

func TestChunksNeverFollowARedirectAway(t *testing.T) {
	b := chunkServer(t, defaultLimits())
	b.srv.Handle("/away", http.RedirectHandler("http://127.0.0.1:1/chunks/8", http.StatusFound))
	c := newAgent("a", "a1").client(t, secret)
	if code, got := fetch(t, c.To(b.ref()), "GET", "http://b/away", nil); code != 200 || got != "chunk 8" {
		t.Errorf("%d %s", code, got)
	}
}

func TestOversizedBodyAndHeader(t *testing.T) {
	b := chunkServer(t, defaultLimits())
	c := newAgent("a", "a1").client(t, secret)
	tooMuch := io.LimitReader(endless{}, MaxBody+1)
	r, _ := http.NewRequestWithContext(t.Context(), "PUT", "http://b/chunks/1", tooMuch)
	if res, err := c.To(b.ref()).RoundTrip(r); err == nil {
		if res.Body.Close(); res.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("body: %s", res.Status)
		}
	}
	r, _ = http.NewRequestWithContext(t.Context(), "GET", "http://b/chunks/1", nil)
	r.Header.Set("X", strings.Repeat("x", 64<<10))
	if res, err := c.To(b.ref()).RoundTrip(r); err == nil {
		if res.Body.Close(); res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("header: %s", res.Status)
		}
	}
	if code, _ := fetch(t, c.To(b.ref()), "GET", "http://b/chunks/1", nil); code != 200 {
		t.Errorf("afterwards: %d", code)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestStalledChunksHarmNoBeats holds every place for chunks; heartbeats are answered all the same.
func TestStalledChunksHarmNoBeats(t *testing.T) {
	l := defaultLimits()
	l.chunksFrom = 4
	b := chunkServer(t, l)
	id, err := identify(secret)
	if err != nil {
		t.Fatal(err)
	}
	for range 8 {
		conn, err := tls.Dial("tcp", b.srv.Addr(), id.config(chunkProto))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, "GET /chunks/1 HTTP/1.1\r\nHost: b\r\n") // and no end of it
	}
	if got := newAgent("a", "a1").client(t, secret).Probe(t.Context(), b.ref()); got.Kind != membership.Same {
		t.Errorf("%+v", got)
	}
}

func TestCloseLetsRequestsEnd(t *testing.T) {
	b := newAgent("b", "b1").serve(t, secret, defaultLimits())
	entered, leave := make(chan struct{}), make(chan struct{})
	b.srv.Handle("/slow", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-leave
		io.WriteString(w, "whole")
	}))
	c := newAgent("a", "a1").client(t, secret)
	got := make(chan string, 1)
	go func() {
		r, _ := http.NewRequestWithContext(context.Background(), "GET", "http://b/slow", nil)
		res, err := c.To(b.ref()).RoundTrip(r)
		if err != nil {
			got <- err.Error()
			return
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		got <- string(body)
	}()
	<-entered
	closed := make(chan struct{})
	go func() { closeServer(t, b.srv); close(closed) }()
	close(leave)
	if s := <-got; s != "whole" {
		t.Errorf("%q", s)
	}
	<-closed
}

const chunkSize = 16 << 20

// take reads one chunk as a verifying reader does.
func take(b *testing.B, r io.Reader) {
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(r, chunkSize),
		make([]byte, 64<<10))
	if n != chunkSize {
		b.Fatal(n, err)
	}
}

// BenchmarkTLS is what BenchmarkChunk has to compare with: the same bytes and nothing around them.
func BenchmarkTLS(b *testing.B) {
	id, err := identify(secret)
	if err != nil {
		b.Fatal(err)
	}
	ln, err := tls.Listen("tcp", "127.0.0.1:0", id.config(chunkProto))
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := ln.Accept()
		for data := make([]byte, chunkSize); err == nil; {
			_, err = conn.Write(data)
		}
	}()
	conn, err := tls.Dial("tcp", ln.Addr().String(), id.config(chunkProto))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(chunkSize)
	for b.Loop() {
		take(b, conn)
	}
	conn.Close()
	<-done
}

func BenchmarkChunk(b *testing.B) {
	srv := newAgent("b", "b1").serve(b, secret, defaultLimits())
	data := make([]byte, chunkSize)
	srv.srv.Handle("/chunk", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(data) }))
	rt := newAgent("a", "a1").client(b, secret).To(srv.ref())
	b.SetBytes(chunkSize)
	for b.Loop() {
		r, _ := http.NewRequestWithContext(b.Context(), "GET", "http://b/chunk", nil)
		res, err := rt.RoundTrip(r)
		if err != nil {
			b.Fatal(err)
		}
		take(b, res.Body)
		res.Body.Close()
	}
}

func BenchmarkProbe(b *testing.B) {
	srv := newAgent("b", "b1").serve(b, secret, defaultLimits())
	c := newAgent("a", "a1").client(b, secret)
	for b.Loop() {
		if got := c.Probe(b.Context(), srv.ref()); got.Kind != membership.Same {
			b.Fatal(got)
		}
	}
}
