package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/membership"
)

// wire answers requests without a network.
type wire func(*http.Request) (*http.Response, error)

func (w wire) RoundTrip(r *http.Request) (*http.Response, error) { return w(r) }

func says(status int, body io.Reader) *http.Response {
	return &http.Response{StatusCode: status, Status: fmt.Sprint(status), Body: io.NopCloser(body),
		Header: http.Header{}}
}

// stalled yields nothing until the request is given up.
type stalled struct{ ctx context.Context }

func (s stalled) Read([]byte) (int, error) { <-s.ctx.Done(); return 0, s.ctx.Err() }

// endless never stops.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// liars are what a peer may answer instead of the truth.
var liars = map[string]wire{
	"other bytes": func(*http.Request) (*http.Response, error) {
		return says(200, bytes.NewReader(memfs.Bytes(77, 5000))), nil
	},
	"nothing": func(*http.Request) (*http.Response, error) { return says(200, strings.NewReader("")), nil },
	"no end":  func(*http.Request) (*http.Response, error) { return says(200, endless{}), nil },
	"not held": func(*http.Request) (*http.Response, error) {
		return says(404, strings.NewReader("not here")), nil
	},
	"trouble": func(*http.Request) (*http.Response, error) { return says(500, endless{}), nil },
	"no answer": func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	},
	"no body": func(r *http.Request) (*http.Response, error) { return says(200, stalled{r.Context()}), nil },
	"another node": func(*http.Request) (*http.Response, error) {
		return says(421, strings.NewReader("another life")), nil
	},
}

// truth serves a store without a network.
func truth(s *chunkstore.Store) wire {
	h := Handler(s, func(time.Duration) {})
	return func(r *http.Request) (*http.Response, error) {
		w := &answer{header: http.Header{}, status: 200}
		h.ServeHTTP(w, r)
		return &http.Response{StatusCode: w.status, Status: fmt.Sprint(w.status), Body: io.NopCloser(&w.body),
			Header: w.header}, nil
	}
}

type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *answer) Header() http.Header         { return w.header }
func (w *answer) WriteHeader(status int)      { w.status = status }
func (w *answer) Write(b []byte) (int, error) { return w.body.Write(b) }

// A peer that sends wrong bytes, stalls or never ends a response costs time, but never causes a
// wrong byte. The chunks come from the next peer. A copy counts only after a valid acknowledgement.
func TestPeersThatSendWrongBytes(t *testing.T) {
	from := memfs.New()
	memfs.WriteFile(t, from, "model.bin", memfs.Bytes(1, 3000), 0o600)
	liar, honest := membership.Ref{Node: "a liar"}, membership.Ref{Node: "honest"}
	for name, lie := range liars {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				held := checkpointtest.OpenStore(t, memfs.New())
				_, h := checkpointtest.Put(t, held, from, 1, 1)
				peers := &HTTP{To: func(r membership.Ref) http.RoundTripper {
					if r == liar {
						return lie
					}
					return truth(held)
				}}
				here := checkpointtest.OpenStore(t, memfs.New())
				c := Copier{Store: here, Peers: peers, Generation: 1}
				if err := c.Fetch(t.Context(), h, []membership.Ref{liar}); err == nil || here.Has(h) {
					t.Errorf("fetched from the liar alone: %v", err)
				}
				must(t, c.Fetch(t.Context(), h, []membership.Ref{liar, honest}))
				must(t, here.Verify(t.Context(), h))

				sender := Copier{Store: held, Peers: peers, Generation: 1}
				acked, err := sender.Replicate(t.Context(), h, []membership.Node{{Ref: liar}})
				if len(acked) > 0 || err == nil {
					t.Errorf("acknowledged by the liar: %v", err)
				}
				if errors.Is(err, chunkstore.ErrFenced) {
					t.Errorf("a lie fences: %v", err)
				}
			})
		})
	}
}

// The disk of a node takes twenty seconds for a chunk: the node notices that itself, and the sender
// gives up after ten. A network that takes as long is not taken for a disk.
func TestSlowDisk(t *testing.T) {
	for name, c := range map[string]struct{ disk, network, noticed, answered time.Duration }{
		"disk":    {disk: 20 * time.Second, noticed: 20 * time.Second, answered: writeLimit},
		"network": {network: 20 * time.Second, answered: 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from, disk := memfs.New(), memfs.New()
				memfs.WriteFile(t, from, "model.bin", memfs.Bytes(1, 3000), 0o600)
				a, b := checkpointtest.OpenStore(t, memfs.New()), checkpointtest.OpenStore(t, disk)
				m, _ := checkpointtest.Put(t, a, from, 1, 1)
				raw, _ := m.Encode()
				var noticed atomic.Int64
				h := Handler(b, func(took time.Duration) { noticed.Store(int64(took)) })
				peers := &HTTP{To: func(membership.Ref) http.RoundTripper {
					return wire(func(r *http.Request) (*http.Response, error) {
						w, ended := &answer{header: http.Header{}, status: 200}, make(chan struct{})
						if strings.HasPrefix(r.URL.Path, chunksURL) {
							r.Body = slowly{r.Body, c.network}
						}
						go func() {
							h.ServeHTTP(w, r)
							close(ended)
						}()
						select {
						case <-ended:
							return &http.Response{StatusCode: w.status, Body: io.NopCloser(&w.body),
								Header: w.header}, nil
						case <-r.Context().Done():
							return nil, r.Context().Err()
						}
					})
				}}
				missing, err := peers.Offer(t.Context(), membership.Ref{Node: "b"}, 1, raw)
				must(t, err)
				disk.Set(func(op, _ string) error {
					if op == "rename" {
						time.Sleep(c.disk)
					}
					return nil
				}, 1<<30)
				began := time.Now()
				err = peers.WriteChunk(t.Context(), membership.Ref{Node: "b"}, chunkstore.Upload{Generation: 1,
					Hash: missing[0], Size: 3000,
					Open: func() (io.ReadSeekCloser, error) { return a.OpenChunk(missing[0]) }})
				if late := c.disk > 0; errors.Is(err, ErrNoAnswer) != late || time.Since(began) != c.answered {
					t.Errorf("%v after %v", err, time.Since(began))
				}
				time.Sleep(time.Minute)
				if took := time.Duration(noticed.Load()); took != c.noticed {
					t.Errorf("noticed %v", took)
				}
			})
		})
	}
}

// slowly is a body whose first bytes come late.
type slowly struct {
	io.ReadCloser
	after time.Duration
}

func (r slowly) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if n > 0 {
		time.Sleep(r.after)
	}
	return n, err
}
