package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/membership"
)

// farm serves stores over real sockets.
type farm struct {
	mu      sync.Mutex // guards stores while requests of before may still be under way
	stores  map[string]*chunkstore.Store
	disks   map[string]dirfs.FS
	servers map[string]*httptest.Server
	wrap    map[string]func(http.Handler) http.Handler
}

func newFarm(t testing.TB, names ...string) *farm {
	f := &farm{stores: map[string]*chunkstore.Store{}, disks: map[string]dirfs.FS{},
		servers: map[string]*httptest.Server{}, wrap: map[string]func(http.Handler) http.Handler{}}
	for _, n := range names {
		f.add(t, n, memfs.New())
	}
	return f
}

func (f *farm) add(t testing.TB, node string, disk dirfs.FS) {
	f.stores[node], f.disks[node] = checkpointtest.OpenStore(t, disk), disk
	f.servers[node] = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		h := Handler(f.stores[node], func(time.Duration) {})
		f.mu.Unlock()
		if f.wrap[node] != nil {
			h = f.wrap[node](h)
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(f.servers[node].Close)
}

func (f *farm) ref(node string) membership.Ref {
	return membership.Ref{Node: node, Incarnation: "1",
		Address: strings.TrimPrefix(f.servers[node].URL, "http://")}
}

func (f *farm) node(node string) membership.Node {
	return membership.Node{Ref: f.ref(node), Machine: node}
}

func (f *farm) copier(t testing.TB, node string) *Copier {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &Copier{Store: f.stores[node], Generation: 1,
		Peers: &HTTP{To: func(membership.Ref) http.RoundTripper { return tr }}}
}

// Both kinds of Peers say the same of the same store.
func TestPeers(t *testing.T) {
	kinds := map[string]func(f *farm) Peers{
		"direct": func(f *farm) Peers { return &checkpointtest.Peers{Stores: f.stores} },
		"http":   func(f *farm) Peers { return f.copier(t, "a").Peers },
	}
	for kind, of := range kinds {
		t.Run(kind, func(t *testing.T) {
			f := newFarm(t, "a", "b")
			from := memfs.New()
			memfs.Model(t, from)
			m, h := checkpointtest.Put(t, f.stores["a"], from, 1, 1)
			raw, _ := m.Encode()
			p, ctx := of(f), t.Context()
			a, b := f.ref("a"), f.ref("b")
			open := func(h manifest.Hash) func() (io.ReadSeekCloser, error) {
				return func() (io.ReadSeekCloser, error) { return f.stores["a"].OpenChunk(h) }
			}

			if got, err := p.Manifest(ctx, a, h); err != nil || string(got) != string(raw) {
				t.Errorf("manifest: %v", err)
			}
			if _, err := p.Manifest(ctx, b, h); !errors.Is(err, chunkstore.ErrNotHeld) {
				t.Errorf("manifest of a node that has none: %v", err)
			}
			some := m.Files[len(m.Files)-1].Chunks[0]
			if err := p.WriteChunk(ctx, b, chunkstore.Upload{Generation: 1, Hash: some,
				Size: manifest.ChunkSize, Open: open(some)}); !errors.Is(err,
				chunkstore.ErrNotHeld) {
				t.Errorf("chunk before the offer: %v", err)
			}
			if err := p.Chunk(ctx, b, some, make([]byte, manifest.ChunkSize)); !errors.Is(err,
				chunkstore.ErrNotHeld) {
				t.Errorf("chunk of a node that has none: %v", err)
			}
			if _, err := p.Offer(ctx, b, 1, []byte("junk")); !errors.Is(err, manifest.ErrBadManifest) {
				t.Errorf("junk: %v", err)
			}
			missing, err := p.Offer(ctx, b, 1, raw)
			must(t, err)
			sizes := map[manifest.Hash]int64{}
			for h, n := range m.DistinctChunks() {
				sizes[h] = n
			}
			full := slices.DeleteFunc(slices.Clone(missing),
				func(h manifest.Hash) bool { return sizes[h] != manifest.ChunkSize })
			if err := p.WriteChunk(ctx, b, chunkstore.Upload{Generation: 1, Hash: full[0],
				Size: manifest.ChunkSize, Open: open(full[1])}); !errors.Is(err,
				chunkstore.ErrDamaged) {
				t.Errorf("other bytes: %v", err)
			}
			for _, c := range missing {
				must(t, p.WriteChunk(ctx, b,
					chunkstore.Upload{Generation: 1, Hash: c, Size: sizes[c], Open: open(c)}))
			}
			if missing, err = p.Offer(ctx, b, 1, raw); missing != nil || err != nil {
				t.Errorf("when all is there: %v, %v", missing, err)
			}
			must(t, f.stores["b"].Verify(ctx, h))
			got := make([]byte, sizes[some])
			must(t, p.Chunk(ctx, b, some, got))
			if manifest.Sum(got) != some {
				t.Error("other bytes came back")
			}
			must(t, f.stores["b"].Raise(5))
			if _, err := p.Offer(ctx, b, 4, raw); !errors.Is(err, chunkstore.ErrFenced) {
				t.Errorf("offer of an older generation: %v", err)
			}
			if err := p.WriteChunk(ctx, b, chunkstore.Upload{Generation: 4, Hash: some,
				Size: manifest.ChunkSize, Open: open(some)}); !errors.Is(err,
				chunkstore.ErrFenced) {
				t.Errorf("chunk of an older generation: %v", err)
			}
		})
	}
}

func TestReplicateAndFetch(t *testing.T) {
	f := newFarm(t, "a", "b", "c", "d")
	from := memfs.New()
	memfs.Model(t, from)
	_, h := checkpointtest.Put(t, f.stores["a"], from, 1, 1)
	var mu sync.Mutex
	var last, total int64
	report := func(done, of int64) {
		mu.Lock()
		defer mu.Unlock()
		last, total = done, of
	}
	sender := f.copier(t, "a")
	sender.Report = report
	got, err := sender.Replicate(t.Context(), h, []membership.Node{f.node("b"), f.node("c")})
	must(t, err)
	if len(got) != 2 || last != total || total == 0 {
		t.Errorf("%d holders, %d of %d bytes", len(got), last, total)
	}
	to := f.copier(t, "d")
	to.Generation, to.Report = 2, report
	must(t, to.Fetch(t.Context(), h, []membership.Ref{f.ref("b"), f.ref("c")}))
	if last != total {
		t.Errorf("fetched %d of %d bytes", last, total)
	}
	for _, n := range []string{"b", "c", "d"} {
		must(t, f.stores[n].Verify(t.Context(), h))
	}
}

// A node that answers no more costs its own copy only, and nothing twice when it is back.
func TestReplicateResumes(t *testing.T) {
	f := newFarm(t, "a", "b", "c")
	from := memfs.New()
	memfs.WriteFile(t, from, "model.bin", memfs.Bytes(1, 5*manifest.ChunkSize), 0o600)
	m, h := checkpointtest.Put(t, f.stores["a"], from, 1, 1)
	var puts atomic.Int64
	var dead, back atomic.Bool
	var again sync.Map // chunks that were sent when it was back
	f.wrap["b"] = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			chunk := strings.HasPrefix(r.URL.Path, chunksURL)
			if chunk && back.Load() {
				again.Store(path.Base(r.URL.Path), true)
			}
			if dead.Load() || chunk && puts.Add(1) > 3 {
				dead.Store(true)
				panic(http.ErrAbortHandler) // the connection breaks
			}
			next.ServeHTTP(w, r)
		})
	}
	to := []membership.Node{f.node("b"), f.node("c")}
	got, err := f.copier(t, "a").Replicate(t.Context(), h, to)
	if err == nil || len(got) != 1 || got[0].Node != "c" {
		t.Fatalf("holders %v, %v", got, err)
	}
	// It was started again, too: only its disk remembers.
	reopened := checkpointtest.OpenStore(t, f.disks["b"])
	f.mu.Lock()
	f.stores["b"] = reopened
	f.mu.Unlock()
	must1(t, len(reopened.Held()) == 0)
	var there []manifest.Hash
	for _, c := range m.Files[0].Chunks {
		if whole, _ := reopened.VerifyChunk(c); whole {
			there = append(there, c)
		}
	}
	must1(t, len(there) > 0)
	back.Store(true)
	puts.Store(-100)
	dead.Store(false)
	if _, err = f.copier(t, "a").Replicate(t.Context(), h, to); err != nil {
		t.Fatal(err)
	}
	for _, c := range there {
		if _, sent := again.Load(c.String()); sent {
			t.Errorf("chunk %v was sent again", c)
		}
	}
	must(t, f.stores["b"].Verify(t.Context(), h))
}

func must1(t testing.TB, ok bool) {
	t.Helper()
	if !ok {
		t.Fatal("does not hold")
	}
}

// Bytes that are not true to their hash come from another holder.
func TestFetchPassesOverDamage(t *testing.T) {
	f := newFarm(t, "a", "b", "c")
	from := memfs.New()
	memfs.WriteFile(t, from, "model.bin", memfs.Bytes(1, 6*manifest.ChunkSize), 0o600)
	m, h := checkpointtest.Put(t, f.stores["a"], from, 1, 1)
	_, err := f.copier(t, "a").Replicate(t.Context(), h, []membership.Node{f.node("b")})
	must(t, err)
	checkpointtest.Flip(t, f.disks["a"], m.Files[0].Chunks[0])
	checkpointtest.Flip(t, f.disks["b"], m.Files[0].Chunks[1])
	must(t, f.copier(t, "c").Fetch(t.Context(), h, []membership.Ref{f.ref("a"), f.ref("b")}))
	must(t, f.stores["c"].Verify(t.Context(), h))

	f.add(t, "d", memfs.New())
	checkpointtest.Flip(t, f.disks["a"], m.Files[0].Chunks[1])
	from2 := []membership.Ref{f.ref("a"), f.ref("b")}
	if err := f.copier(t, "d").Fetch(t.Context(), h, from2); !errors.Is(err, chunkstore.ErrNotHeld) ||
		!strings.Contains(err.Error(), "damaged") {
		t.Errorf("damaged everywhere: %v", err)
	}
	if f.stores["d"].Has(h) {
		t.Error("held in part")
	}
}

// Our own chunk went bad: that is no fault of the other node.
func TestReplicateFindsItsOwnDamage(t *testing.T) {
	f := newFarm(t, "a", "b")
	from := memfs.New()
	memfs.WriteFile(t, from, "model.bin", memfs.Bytes(1, 2*manifest.ChunkSize), 0o600)
	m, h := checkpointtest.Put(t, f.stores["a"], from, 1, 1)
	checkpointtest.Flip(t, f.disks["a"], m.Files[0].Chunks[1])
	_, err := f.copier(t, "a").Replicate(t.Context(), h, []membership.Node{f.node("b")})
	if !errors.Is(err, chunkstore.ErrDamaged) {
		t.Errorf("replicate: %v", err)
	}
	if c, err := f.stores["a"].OpenChunk(m.Files[0].Chunks[1]); !errors.Is(err, chunkstore.ErrNotHeld) {
		t.Errorf("still believed: %v, %v", c, err)
	}
}

func TestTransferIsCancelled(t *testing.T) {
	f := newFarm(t, "a", "b")
	from := memfs.New()
	memfs.WriteFile(t, from, "model.bin", memfs.Bytes(1, 2*manifest.ChunkSize), 0o600)
	_, h := checkpointtest.Put(t, f.stores["a"], from, 1, 1)
	ctx, cancel := context.WithCancel(t.Context())
	f.wrap["b"] = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, chunksURL) {
				cancel()
				io.Copy(io.Discard, r.Body)
				<-r.Context().Done() // frozen
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	if _, err := f.copier(t, "a").Replicate(ctx, h, []membership.Node{f.node("b")}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("replicate: %v", err)
	}
}

func TestHandlerRefuses(t *testing.T) {
	f := newFarm(t, "a")
	from := memfs.New()
	memfs.WriteFile(t, from, "model.bin", memfs.Bytes(1, 1000), 0o600)
	m, h := checkpointtest.Put(t, f.stores["a"], from, 1, 1)
	url := f.servers["a"].URL
	for _, c := range []struct {
		method, path string
		body         string
		want         int
	}{
		{"GET", manifestsURL + h.String(), "", 200},
		{"GET", chunksURL + m.Files[0].Chunks[0].String(), "", 200},
		{"GET", chunksURL + h.String(), "", 404},
		{"GET", chunksURL + "..%2f..%2fetc%2fpasswd", "", 400},
		{"GET", chunksURL + "abc", "", 400},
		{"GET", chunksURL + strings.Repeat("z", 64), "", 400},
		{"PUT", chunksURL + h.String(), "x", 400},
		{"PUT", chunksURL + h.String() + "?g=-1", "x", 400},
		{"PUT", chunksURL + h.String() + "?g=1", "x", 404},
		{"PUT", chunksURL + h.String() + "?g=0", "x", 410},
		{"PUT", manifestsURL + h.String() + "?g=1", "x", 422},
		{"DELETE", chunksURL + h.String(), "", 405},
		{"POST", manifestsURL + h.String() + "?g=1", "", 405},
	} {
		t.Run(fmt.Sprint(c.method, c.path), func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), c.method, url+c.path,
				strings.NewReader(c.body))
			must(t, err)
			resp, err := http.DefaultTransport.RoundTrip(req)
			must(t, err)
			defer resp.Body.Close()
			if resp.StatusCode != c.want {
				t.Errorf("status %d, want %d", resp.StatusCode, c.want)
			}
		})
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", url+chunksURL+m.Files[0].Chunks[0].String(), nil)
	must(t, err)
	req.Header.Set("Range", "bytes=990-")
	resp, err := http.DefaultTransport.RoundTrip(req)
	must(t, err)
	defer resp.Body.Close()
	if raw, _ := io.ReadAll(resp.Body); resp.StatusCode != 206 ||
		!slices.Equal(raw, memfs.Bytes(1, 1000)[990:]) {
		t.Errorf("range: %d, %d bytes", resp.StatusCode, len(raw))
	}
}
