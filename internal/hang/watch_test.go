package hang

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
)

// lab is nodes of two workers each, whose workers are silent unless they are busy.
type lab struct {
	mu     sync.Mutex
	looked []string // nodes
	nodes  map[string]*Watch
	server map[string]*httptest.Server
}

type group struct {
	l      *lab
	node   string
	first  int // rank
	looks  int
	busy   bool
	stacks []string
	moves  []string
	work   float64 // the share of a core of its second worker
	below  bool    // a process below its second worker works
	paces  []string
}

func (g *group) Pulses() []Pulse {
	g.looks++
	if g.busy {
		return []Pulse{{}, {Output: int64(g.looks)}}
	}
	return []Pulse{{}, {}}
}
func (g *group) Progress() []string    { return g.paces }
func (g *group) Ending() bool          { return false }
func (g *group) Done() <-chan struct{} { return nil }

// Look shows the stacks of its workers; moves are those of its second worker, one a look.
func (g *group) Look(context.Context) []Evidence {
	g.l.mu.Lock()
	defer g.l.mu.Unlock()
	g.l.looked = append(g.l.looked, g.node)
	g.looks++
	second := g.stacks[1]
	if len(g.moves) > 0 {
		second = g.moves[(g.looks-1)%len(g.moves)]
	}
	return []Evidence{{Rank: g.first, State: "S", Stack: g.stacks[0]},
		{Rank: g.first + 1, State: "S", Stack: second, Busy: g.work, Working: g.below}}
}

type toNode struct {
	l    *lab
	node string
}

func (n toNode) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = "http", n.l.server[n.node].Listener.Addr().String()
	return http.DefaultTransport.RoundTrip(r)
}

func newLab(t testing.TB, groups ...*group) *lab {
	l := &lab{nodes: map[string]*Watch{}, server: map[string]*httptest.Server{}}
	world := World{Job: "x", Generation: 7, Slots: 2}
	for _, g := range groups {
		world.Members = append(world.Members, membership.Ref{Node: g.node})
	}
	for i, g := range groups {
		g.l, g.first = l, 2*i
		w := &Watch{World: world, Node: g.node, Logs: t.TempDir(), Timeout: 2 * time.Second, Workers: g,
			To: func(r membership.Ref) http.RoundTripper { return toNode{l, r.Node} }}
		l.nodes[g.node] = w
		mux := http.NewServeMux()
		for pattern, h := range Handlers(func() *Watch { return w }) {
			mux.Handle(pattern, h)
		}
		l.server[g.node] = httptest.NewServer(mux)
		t.Cleanup(l.server[g.node].Close)
	}
	return l
}

// run watches on all nodes until the first finds a hang, or ctx ends.
func (l *lab) run(ctx context.Context, first string) *Found {
	ctx, cancel := context.WithCancel(ctx)
	var others sync.WaitGroup
	for name, w := range l.nodes {
		if name != first {
			others.Go(func() { w.Run(ctx) })
		}
	}
	defer others.Wait()
	defer cancel()
	return l.nodes[first].Run(ctx)
}

const (
	inLock   = "  File \"train.py\", line 8 in lock\n  File \"train.py\", line 60 in <module>\n"
	inReduce = "  File \"x.py\", line 9 in all_reduce\n  File \"train.py\", line 60 in <module>\n"
)

// All nodes look once, and the rank that the others wait for is found.
func TestTheRankBehindIsFound(t *testing.T) {
	t.Parallel()
	l := newLab(t, &group{node: "a", stacks: []string{inReduce, inReduce}},
		&group{node: "b", stacks: []string{inReduce, inLock}},
		&group{node: "c", stacks: []string{inReduce, inReduce}})
	f := l.run(t.Context(), "a")
	if f == nil || f.Rank != 3 || !strings.Contains(f.Message,
		"it stands in lock (train.py:8), and 5 of 6 ranks wait for it in all_reduce") {
		t.Fatalf("%+v", f)
	}
	slices.Sort(l.looked)
	if fmt.Sprint(l.looked) != "[a b c]" {
		t.Errorf("%q", l.looked)
	}
	if !strings.Contains(f.Detail, "lock (train.py:8)") ||
		!strings.Contains(f.Detail, "evidence of all ranks: ") {
		t.Errorf("%s", f.Detail)
	}
}

// A node whose workers do something, and one that does not answer, are reasons to wait.
func TestNoHangWhileOneWorks(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]*group{"busy": {node: "b", busy: true}, "away": {node: "b"}} {
		l := newLab(t, &group{node: "a"}, b)
		if name == "away" {
			l.server["b"].Close()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		if f := l.run(ctx, "a"); f != nil {
			t.Errorf("%s: %+v", name, f)
		}
		cancel()
		if len(l.looked) != 0 {
			t.Errorf("%s: %q", name, l.looked)
		}
	}
}

// A peer's evidence of ranks that are not its own is not taken, and the node is named in the
// summary.
func TestEvidenceOfOthers(t *testing.T) {
	t.Parallel()
	l := newLab(t, &group{node: "a"}, &group{node: "b"})
	w := l.nodes["a"]
	for _, bad := range [][]Evidence{nil, {{Rank: 2}}, {{Rank: 0}, {Rank: 1}}, {{Rank: -1}, {Rank: 2}},
		{{Rank: 2}, {Rank: 1 << 40}}} {
		if w.of(1, bad) {
			t.Errorf("%+v", bad)
		}
	}
	if !w.of(1, []Evidence{{Rank: 2}, {Rank: 3}}) {
		t.Error("its own ranks")
	}
}
