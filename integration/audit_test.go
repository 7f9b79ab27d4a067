package integration

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// audit follows every change of a job's keys, in the order of the store, and
// checks each against the guarantees. It misses none: changes that were made
// while the store or this process was stopped are read afterwards.
type audit struct {
	job    schema.Job
	client *clientv3.Client
	stale  func(node string, g schema.Generation) []process // workers on a node of generations before g
	end    func()
	work   sync.WaitGroup

	mu      sync.Mutex // guards the rest; apply writes it
	rev     int64
	news    chan struct{} // closed, and made anew, with each change
	job1    *rendezvous.Job
	fence   schema.Generation
	world   *rendezvous.World
	head    checkpoint.Head
	resumes map[schema.Generation]int64 // the step that each generation starts from
	nodes   map[string]membership.Node
	doubt   map[string]bool // suspicions, by key
	past    []history.Event // all of it
	wrong   []string
}

func newAudit(t testing.TB, endpoint, job string, stale func(string, schema.Generation) []process) *audit {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &audit{job: schema.Job(job), client: c, stale: stale, news: make(chan struct{}),
		nodes: map[string]membership.Node{}, doubt: map[string]bool{}, resumes: map[schema.Generation]int64{}}
	l.end = sync.OnceFunc(func() { cancel(); l.work.Wait(); c.Close() })
	t.Cleanup(l.end)
	l.work.Go(func() { l.follow(ctx) })
	return l
}

func (l *audit) follow(ctx context.Context) {
	// Revision 1 is before the job. After a restart of the server the client continues where it
	// was.
	for r := range l.client.Watch(ctx, l.job.Prefix(), clientv3.WithPrefix(), clientv3.WithRev(1)) {
		l.mu.Lock()
		if err := r.Err(); err != nil {
			l.breach("the history is incomplete: %v", err)
		}
		for len(r.Events) > 0 { // one transaction at a time
			n := 1
			for n < len(r.Events) && r.Events[n].Kv.ModRevision == r.Events[0].Kv.ModRevision {
				n++
			}
			l.apply(r.Events[:n])
			r.Events = r.Events[n:]
		}
		l.rev = max(l.rev, r.Header.Revision)
		close(l.news)
		l.news = make(chan struct{})
		l.mu.Unlock()
	}
}

func (l *audit) breach(format string, args ...any) {
	l.wrong = append(l.wrong, fmt.Sprintf("revision %d: ", l.rev)+fmt.Sprintf(format, args...))
}

// must decodes a record of Elastic.
func must[T any](l *audit, e *store.Entry) T {
	v, err := schema.Decode[T](e)
	if err != nil {
		l.breach("%v", err)
	}
	return v
}

// apply takes one transaction. mu is held.
func (l *audit) apply(events []*clientv3.Event) {
	l.rev = events[0].Kv.ModRevision
	at := map[string]*store.Entry{} // the entries that it wrote, by key
	for _, e := range events {
		if e.Type == clientv3.EventTypePut {
			at[string(e.Kv.Key)] = &store.Entry{Key: string(e.Kv.Key), Value: e.Kv.Value,
				Rev: e.Kv.ModRevision}
		} else if p := schema.Rest(l.job.Nodes(), string(e.Kv.Key)); len(p) == 1 {
			delete(l.nodes, p[0])
		}
		if schema.Rest(l.job.AllSuspects(), string(e.Kv.Key)) != nil {
			if delete(l.doubt, string(e.Kv.Key)); e.Type == clientv3.EventTypePut {
				l.doubt[string(e.Kv.Key)] = true
			}
		}
	}
	if e := at[l.job.Job()]; e != nil {
		j := must[rendezvous.Job](l, e)
		l.job1 = &j
	}
	fenced := false
	if e := at[l.job.Fence()]; e != nil {
		_, g, err := schema.ParseFence(e.Value)
		made := g == 0 && at[l.job.Job()] != nil // with the job itself
		if err != nil || g <= l.fence && !made {
			l.breach("G1: the fence is %d after %d (%v)", g, l.fence, err)
		}
		l.fence, fenced = g, true
	}
	if e := at[l.job.Head()]; e != nil {
		h := must[checkpoint.Head](l, e)
		h.Rev = e.Rev
		l.commit(h, fenced)
	}
	for _, e := range at {
		if p := schema.Rest(l.job.Nodes(), e.Key); len(p) == 1 {
			l.nodes[p[0]] = must[membership.Node](l, e)
		}
		if p := schema.Rest(l.job.AllReady(), e.Key); len(p) == 2 {
			g, _ := strconv.ParseUint(p[0], 10, 64)
			l.ready(p[1], schema.Generation(g))
		}
		if schema.Rest(l.job.Events(), e.Key) != nil {
			reported, err := history.Decode(e)
			if err != nil {
				l.breach("%v", err)
			}
			l.past = append(l.past, reported...)
		}
	}
	if e := at[l.job.World()]; e != nil {
		w := must[rendezvous.World](l, e)
		w.Rev = e.Rev
		l.turn(&w)
	}
}

// commit: G2, and the numbers of checkpoints rise by one.
func (l *audit) commit(h checkpoint.Head, fallback bool) {
	if h.Generation != l.fence && !fallback {
		l.breach("G2: a checkpoint of generation %d was committed; generation %d was proposed",
			h.Generation, l.fence)
	}
	if h.Number != l.head.Number+1 {
		l.breach("checkpoint %d after %d", h.Number, l.head.Number)
	}
	if h.Step != nil && l.head.Step != nil && *h.Step < *l.head.Step {
		l.breach("G3: checkpoint %d is of step %d, and %d was of %d",
			h.Number, *h.Step, l.head.Number, *l.head.Step)
	}
	l.head = h
}

// ready checks G4: a node that reported Ready never again has a worker of an older generation.
func (l *audit) ready(node string, g schema.Generation) {
	for _, x := range l.stale(node, g) {
		l.breach("G4: %s is ready for generation %d, and %s runs (generation %d)", node, g, x, generation(x))
	}
}

// turn checks G1, the resume of each generation, and a part of G4: while a world runs, older
// workers live only on nodes that are not registered.
func (l *audit) turn(w *rendezvous.World) {
	old := l.world
	l.world = w
	if old == nil || w.Generation > old.Generation {
		l.proposed(w)
		return
	}
	same := w.Proposal == old.Proposal && slices.EqualFunc(w.Members, old.Members, membership.Ref.Same) &&
		slices.EqualFunc(w.Leavers, old.Leavers, membership.Ref.Same)
	order := []rendezvous.Phase{rendezvous.Forming, rendezvous.Running, rendezvous.Finishing,
		rendezvous.Waiting, rendezvous.Done, rendezvous.Failed, rendezvous.Stopped}
	again := w.Phase == rendezvous.Waiting && old.Phase == rendezvous.Waiting
	if w.Generation < old.Generation || !same ||
		slices.Index(order, w.Phase) <= slices.Index(order, old.Phase) && !again {
		l.breach("G1: generation %d %s %v became generation %d %s %v",
			old.Generation, old.Phase, old.Members, w.Generation, w.Phase, w.Members)
	}
	if w.Phase == rendezvous.Running {
		for name := range l.nodes {
			l.ready(name, w.Generation)
		}
	}
}

func (l *audit) proposed(w *rendezvous.World) {
	var names []string
	for _, m := range w.Members {
		names = append(names, m.Node)
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != w.Count || len(w.Members) != w.Count || w.Phase != rendezvous.Forming ||
		w.Generation != l.fence {
		l.breach("G1: generation %d, fence %d, is %s with %d members: %v",
			w.Generation, l.fence, w.Phase, w.Count, w.Members)
	}
	if n := l.job1.Limits; n.Exact && w.Count != w.NP || !n.Exact && (w.Count < n.Min || w.Count > n.Max) {
		l.breach("G1: generation %d has %d members; np is %s, %d wished", w.Generation, w.Count, n, w.NP)
	}
	resume := rendezvous.Resume{}
	if w.Resume != nil {
		resume = *w.Resume
	}
	if resume.Number != l.head.Number || resume.Manifest != l.head.Manifest {
		l.breach("G3: generation %d starts from checkpoint %d, and %d is the newest",
			w.Generation, resume.Number, l.head.Number)
	}
	if l.resumes[w.Generation] = 0; resume.Step != nil {
		l.resumes[w.Generation] = *resume.Step
	}
}

// look calls f with mu held, so that f may read the audit's fields.
func (l *audit) look(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// zero returns the node of rank 0.
func (l *audit) zero() (name string) {
	l.look(func() { name = l.world.Members[0].Node })
	return name
}

// mark returns the newest revision of the store. The audit has applied it by then.
func (l *audit) mark(t testing.TB) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r, err := l.client.Get(ctx, l.job.Prefix())
	if err != nil {
		t.Fatal(err)
	}
	for {
		var rev int64
		var news chan struct{}
		l.look(func() { rev, news = l.rev, l.news })
		// What others than the job wrote is not followed.
		last := int64(0)
		for _, kv := range r.Kvs {
			last = max(last, kv.ModRevision)
		}
		if rev >= last {
			return r.Header.Revision
		}
		select {
		case <-news:
		case <-ctx.Done():
			t.Fatalf("the history stands at %d of %d", rev, r.Header.Revision)
		}
	}
}

// since returns the events of some kinds after a revision.
func (l *audit) since(rev int64, kinds ...history.Kind) (all []history.Event) {
	l.look(func() {
		for _, e := range l.past {
			if e.Rev/1000 > rev && slices.Contains(kinds, e.Kind) {
				all = append(all, e)
			}
		}
	})
	return all
}

// reaches waits until is returns nil. is may read the audit's fields.
func (l *audit) reaches(t testing.TB, limit time.Duration, what string, is func() error) {
	t.Helper()
	end := time.After(limit)
	for {
		var err error
		var news chan struct{}
		l.look(func() { err, news = is(), l.news })
		if err == nil {
			return
		}
		select {
		case <-news:
		case <-end:
			t.Fatalf("not within %s: %s: %v", limit, what, err)
		}
	}
}

// trusts waits until there is no suspicion.
func (l *audit) trusts(t testing.TB) {
	t.Helper()
	l.reaches(t, limit, "the end of all suspicions", func() error {
		if len(l.doubt) > 0 {
			return fmt.Errorf("in doubt: %v", l.doubt)
		}
		return nil
	})
}

// holds fails the test with every violation.
func (l *audit) holds(t testing.TB) {
	t.Helper()
	l.look(func() {
		for _, w := range l.wrong {
			t.Error(w)
		}
		l.wrong = nil
	})
}
