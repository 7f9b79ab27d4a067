package check

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
)

// lab is nodes that are servers of this process, each with the speed at which it sends and
// receives.
type lab struct {
	servers map[string]*httptest.Server
	pulls   atomic.Int32
}

// slowly passes a response on at a limited speed.
type slowly struct{ http.ResponseWriter }

func (s slowly) Write(p []byte) (int, error) {
	const at = 20 * time.Millisecond
	<-time.After(at)
	return s.ResponseWriter.Write(p[:min(len(p), 4<<10)])
}

func newLab(t *testing.T, slow string, names ...string) *lab {
	l := &lab{servers: map[string]*httptest.Server{}}
	for _, name := range names {
		s := NewServer(func(r membership.Ref) http.RoundTripper { return l.way(name == slow, r) })
		mux := http.NewServeMux()
		for pattern, h := range s.Handlers() {
			mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == DataPath {
					l.pulls.Add(1)
				}
				if r.URL.Path == DataPath && (name == slow || r.Header.Get("Slow") != "") {
					w = slowly{w}
				}
				h.ServeHTTP(w, r)
			})
		}
		l.servers[name] = httptest.NewServer(mux)
		t.Cleanup(l.servers[name].Close)
	}
	return l
}

type way struct {
	l    *lab
	to   membership.Ref
	slow bool
}

func (l *lab) way(slow bool, to membership.Ref) http.RoundTripper { return way{l, to, slow} }

func (w way) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = "http", w.l.servers[w.to.Node].Listener.Addr().String()
	if w.slow {
		r.Header.Set("Slow", "1")
	}
	return http.DefaultTransport.RoundTrip(r)
}

func (l *lab) To(r membership.Ref) http.RoundTripper { return l.way(false, r) }

func (l *lab) Probe(context.Context, membership.Ref) membership.Answer {
	return membership.Answer{Kind: membership.Same}
}

func (l *lab) Reach(context.Context, membership.Ref, string) (membership.AnswerKind, error) {
	return membership.Same, nil
}

// A node that sends and receives slowly is named by each node that checks, and each transfer is
// made once.
func TestSlowNodeIsNamedByAll(t *testing.T) {
	t.Parallel()
	l := newLab(t, "c", "a", "b", "c", "d")
	for _, self := range []string{"a", "b", "c", "d", ""} {
		n := nodes(self, "a", "b", "c", "d")
		n.Link, n.Round = l, "7"
		f := n.judgeTransfers(n.Transfer(t.Context(), 300*time.Millisecond))
		if !slices.Equal(f.Nodes, []string{"c"}) || f.Failed != (self == "c" || self == "") {
			t.Errorf("node %q: %+v", self, f)
		}
	}
	if got := l.pulls.Load(); got != 4 {
		t.Errorf("%d transfers", got)
	}
}

func TestClocks(t *testing.T) {
	t.Parallel()
	n := nodes("a", "a", "b")
	n.Link = newLab(t, "", "a", "b")
	if got := n.Clocks(t.Context()); len(got) != 1 || got["b"].Abs() > 30*time.Second {
		t.Errorf("%v", got)
	}
}

// What is asked of a node is bounded.
func TestLimits(t *testing.T) {
	t.Parallel()
	s := NewServer(nil)
	for path, want := range map[string]int{DataPath + "?ms=10001": 400, DataPath + "?ms=0": 400,
		DataPath: 400, DataPath + "?ms=-1": 400, DataPath + "?ms=1": 200} {
		w := httptest.NewRecorder()
		s.data(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
	for range maxSending {
		s.sending <- struct{}{}
	}
	w := httptest.NewRecorder()
	s.data(w, httptest.NewRequest(http.MethodGet, DataPath+"?ms=1", nil))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("one more transfer: %d", w.Code)
	}
	for i := range 3 * maxRounds {
		p, mine := s.round(string(rune(1000 + i)))
		if !mine {
			t.Fatalf("round %d is another's", i)
		}
		close(p.done)
	}
	if len(s.rounds) > maxRounds {
		t.Errorf("%d rounds are remembered", len(s.rounds))
	}
	for i := range maxSending {
		s.round(string(rune(i)))
	}
	if p, _ := s.round("one more"); p != nil {
		t.Error("more than it may")
	}
}

func TestDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if f := Disk(t.Context(), dir, 1); f.Failed {
		t.Errorf("%+v", f)
	}
	if f := Disk(t.Context(), dir, 1<<62); !f.Failed {
		t.Errorf("%+v", f)
	}
	if f := Disk(t.Context(), dir+"/none", 1); !f.Failed {
		t.Errorf("%+v", f)
	}
}
