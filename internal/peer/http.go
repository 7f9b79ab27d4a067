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

// MaxBody is the largest body of a request. A chunk is smaller.
const MaxBody = 64 << 20

const (
	headerTo         = "Elastic-To"         // node/incarnation that must answer the request
	headerGeneration = "Elastic-Generation" // the newest generation that the sender knows
)

// Handle registers h for pattern, as in http.ServeMux. h gets only requests of peers of the job for
// this incarnation of the node.
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

// body is the body of a request. It may take any time while bytes arrive.
type body struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *body) Read(p []byte) (int, error) {
	b.control.SetReadDeadline(time.Now().Add(stallLimit))
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		// The body is complete: the handler has no time limit, and the server watches the
		// connection.
		b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// handoff is the listener of the HTTP server. Its connections have proven that they know the
// secret.
type handoff struct {
	addr   net.Addr
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// pass gives t to the HTTP server. c is the connection below t.
func (h *handoff) pass(g *gate, c *conn, t *tls.Conn) {
	if !g.prove(c, chunks) {
		t.Close()
		return
	}
	c.SetDeadline(time.Time{})
	endAfterCut(c.Conn)
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
