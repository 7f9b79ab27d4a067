package peer

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
)

// MaxBody bounds the body of one request; a chunk is smaller.
const MaxBody = 64 << 20

const (
	headerTo         = "Elastic-To"         // node/incarnation that the request is for
	headerGeneration = "Elastic-Generation" // newest that the sender knows
)

// Handle serves pattern, as of http.ServeMux, to peers of the job. A request for another
// incarnation than ours never reaches h.
func (s *Server) Handle(pattern string, h http.Handler) { s.mux.Handle(pattern, h) }

func newHTTP(mux http.Handler, self Self, prove time.Duration) *http.Server {
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			me := self.Hello()
			if g, err := schema.ParseGeneration(r.Header.Get(headerGeneration)); err == nil {
				self.heard(g)
			}
			w.Header().Set(headerGeneration, strconv.FormatUint(uint64(me.Generation), 10))
			if r.Header.Get(headerTo) != name(membership.Ref{Node: me.Node, Incarnation: me.Incarnation}) {
				http.Error(w, "this is "+me.Node+" in another life", http.StatusMisdirectedRequest)
				return
			}
			r.Body = &body{http.MaxBytesReader(w, r.Body, MaxBody), http.NewResponseController(w)}
			mux.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: prove,
		IdleTimeout:       stallLimit,
		MaxHeaderBytes:    16 << 10,
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
}

func name(r membership.Ref) string { return r.Node + "/" + string(r.Incarnation) }

// body gives a request's body as long as it needs while bytes flow, and no longer.
type body struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *body) Read(p []byte) (int, error) {
	b.control.SetReadDeadline(time.Now().Add(stallLimit))
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		// The handler may take its time now, and the server watches the connection meanwhile.
		b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// handoff is the listener of the HTTP server: it gives out connections that are proven.
type handoff struct {
	addr   net.Addr
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// pass hands t over; c is the connection below it.
func (h *handoff) pass(g *gate, c *conn, t *tls.Conn) {
	if !g.prove(c, chunks) {
		t.Close()
		return
	}
	c.SetDeadline(time.Time{})
	outlives(c.Conn)
	select {
	case h.conns <- t:
	case <-h.closed:
		t.Close()
	}
}

func (h *handoff) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *handoff) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

func (h *handoff) Addr() net.Addr { return h.addr }
