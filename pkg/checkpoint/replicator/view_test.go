package replicator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/transfer"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

const job = schema.Job("x")

// node is on a machine of its own.
func node(name string, life membership.Incarnation) membership.Node {
	return membership.Node{Ref: membership.Ref{Node: name, Incarnation: life}, Machine: "machine-" + name}
}

func nodesOf(names ...string) (all []membership.Node) {
	for _, n := range names {
		all = append(all, node(n, "1"))
	}
	return all
}

func namesOf(nodes []membership.Node) string {
	var names []string
	for _, n := range nodes {
		names = append(names, n.Node+"/"+string(n.Incarnation))
	}
	return strings.Join(names, " ")
}

// interrupted is a store where something happens while it is read.
type interrupted struct {
	store.Store
	during func() error
}

func (s interrupted) Get(ctx context.Context, key, end string) (store.Read, error) {
	read, err := s.Store.Get(ctx, key, end)
	return read, errors.Join(err, s.during())
}

// A view that has too few nodes for the copies is replaced by what the record has, but never one that
// is newer than that reading.
func TestFresh(t *testing.T) {
	nothing := func(*Replicator) error { return nil }
	for name, c := range map[string]struct {
		view, record []membership.Node
		during       func(*Replicator) error
		want         string
		moved        bool // who waits for a change is woken
	}{
		"enough are in view":   {nodesOf("a", "b"), nodesOf("a", "c"), nothing, "a/1 b/1", false},
		"another came":         {nodesOf("a"), nodesOf("a", "b"), nothing, "a/1 b/1", true},
		"none came":            {nodesOf("a"), nodesOf("a"), nothing, "a/1", false},
		"one has another life": {nodesOf("a"), []membership.Node{node("a", "2")}, nothing, "a/2", true},
		"the view changes meanwhile": {nodesOf("a"), nodesOf("a", "b"),
			func(r *Replicator) error { r.Nodes(nodesOf("a", "c")); return nil }, "a/1 c/1", true},
		"no answer": {nodesOf("a"), nodesOf("a", "b"),
			func(*Replicator) error { return errors.New("no answer") }, "a/1", false},
	} {
		t.Run(name, func(t *testing.T) {
			client := memory.New().Client("a")
			for _, n := range c.record {
				if _, err := client.Txn(t.Context(), store.Txn{Then: []store.Write{
					store.Put(job.Node(n.Node), schema.Encode(n))}}); err != nil {
					t.Fatal(err)
				}
			}
			r := &Replicator{Self: "a", Replicas: 2}
			r.Record = &checkpoint.Record{Store: interrupted{client, func() error { return c.during(r) }}, Job: job}
			r.Nodes(c.view)
			_, before := r.View()
			got, _ := r.Fresh(t.Context())
			if namesOf(got) != c.want {
				t.Errorf("%s, want %s", namesOf(got), c.want)
			}
			moved := false
			select {
			case <-before:
				moved = true
			default:
			}
			if moved != c.moved {
				t.Errorf("who waits is woken: %v", moved)
			}
		})
	}
}

// A copy ends early when a node that gets it is gone, or lives again.
func TestWhileRegistered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Replicator{Self: "a", Replicas: 2}
		r.Nodes(nodesOf("a", "b", "c"))
		ctx, stop := r.whileRegistered(t.Context(), nodesOf("b"))
		defer stop()
		r.Nodes(nodesOf("a", "b"))
		synctest.Wait()
		if ctx.Err() != nil {
			t.Fatal("it ends, and b is registered")
		}
		r.Nodes([]membership.Node{node("a", "1"), node("b", "2")})
		synctest.Wait()
		if ctx.Err() == nil {
			t.Error("it goes on, and this life of b is gone")
		}
	})
}

// The nodes that lost their registration are remembered until they come back, the newest eight.
func TestAway(t *testing.T) {
	r := &Replicator{Self: "a"}
	r.Nodes(nodesOf("a", "b", "c", "d"))
	r.Nodes(nodesOf("a", "d"))
	if got := namesOf(r.away); got != "b/1 c/1" {
		t.Errorf("away: %s", got)
	}
	r.Nodes([]membership.Node{node("a", "1"), node("b", "2")})
	if got := namesOf(r.away); got != "c/1 d/1" {
		t.Errorf("b is back, away: %s", got)
	}
	many := strings.Split("e f g h i j k l", " ")
	r.Nodes(nodesOf(many...))
	r.Nodes(nil)
	if got := namesOf(r.away); got != "e/1 f/1 g/1 h/1 i/1 j/1 k/1 l/1" {
		t.Errorf("away: %s", got)
	}
}

// silent are peers that answer a request after a time, or not.
type silent struct {
	transfer.Peers
	after time.Duration
	err   error
}

func (p silent) Offer(
	context.Context, membership.Ref, schema.Generation, []byte,
) ([]manifest.Hash, error) {
	time.Sleep(p.after)
	return nil, p.err
}

// A node that gives no answer for a while is asked after the others, for a time; it is reported once. One
// that refuses answers.
func TestLateNodesAreAskedLast(t *testing.T) {
	for name, c := range map[string]struct {
		peer silent
		late bool
	}{
		"it answers":              {silent{after: time.Minute}, false},
		"it refuses":              {silent{after: time.Minute, err: chunkstore.ErrFenced}, false},
		"no answer at once":       {silent{err: transfer.ErrNoAnswer}, false},
		"no answer for a while":   {silent{after: lateAfter, err: transfer.ErrNoAnswer}, true},
		"no answer for very long": {silent{after: time.Minute, err: transfer.ErrNoAnswer}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var reported []Event
				r := &Replicator{Self: "a", Report: func(e Event) { reported = append(reported, e) }}
				nodes := nodesOf("a", "b", "c")
				first := func() string { return r.Targets(nodes, 1)[0].Node }
				for range 2 {
					_, _ = noting{c.peer, r}.Offer(t.Context(), nodes[1].Ref, 1, nil)
				}
				if late := first() == "c"; late != c.late || (len(reported) == 1) != c.late {
					t.Errorf("late: %v, reported %v", late, reported)
				}
				time.Sleep(lateFor)
				if first() != "b" {
					t.Error("it is not asked again")
				}
			})
		})
	}
}

// A checkpoint is spread to as many other nodes as are asked for; those that fail are replaced, and named
// if there are not enough.
func TestSpread(t *testing.T) {
	for name, c := range map[string]struct {
		nodes string
		n     int
		held  string // has it after
		fails string // the error names
	}{
		"one of two":            {"a b c", 1, "b", ""},
		"two":                   {"a b c", 2, "b c", ""},
		"all that there are":    {"a b", 2, "b", ""},
		"one fails":             {"a ailing b", 1, "b", ""},
		"too few of them":       {"a ailing b", 2, "b", "ailing"},
		"nobody else":           {"a", 1, "", ""},
		"nobody else who works": {"a ailing", 1, "", "ailing"},
	} {
		t.Run(name, func(t *testing.T) {
			peers := &checkpointtest.Peers{Stores: map[string]*chunkstore.Store{}}
			own := checkpointtest.OpenStore(t, memfs.New())
			for _, n := range []string{"b", "c"} {
				peers.Stores[n] = checkpointtest.OpenStore(t, memfs.New())
			}
			from := memfs.New()
			memfs.WriteFile(t, from, "model", []byte("weights"), 0o600)
			_, h := checkpointtest.Put(t, own, from, 1, 1)
			r := &Replicator{Store: own, Peers: peers, Self: "a", Report: func(Event) {}}
			r.Nodes(nodesOf(strings.Fields(c.nodes)...))
			err := r.Spread(t.Context(), 1, h, c.n)
			if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("error: %v", err)
			}
			var held []string
			for _, n := range []string{"b", "c"} {
				if peers.Stores[n].HasManifest(h) && peers.Stores[n].Verify(t.Context(), h) == nil {
					held = append(held, n)
				}
			}
			if got := strings.Join(held, " "); got != c.held {
				t.Errorf("held by %q", got)
			}
		})
	}
}
