package rendezvous_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// storedJob is one job in a store, and the requests on it.
type storedJob struct {
	t *testing.T
	txn.Requests
	reg   membership.Registry
	nodes map[string]membership.Node // as registered last
	lives int
	uid   schema.UID // of the job; "": that of aJob
}

func newStoredJob(t *testing.T, s store.Store, job schema.Job) *storedJob {
	return &storedJob{t: t, Requests: txn.Requests{Store: s, Job: job},
		reg: membership.Registry{Store: s, Job: job}, nodes: map[string]membership.Node{}}
}

func (w *storedJob) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// through is the same job with requests to another store.
func (w *storedJob) through(s store.Store) *storedJob {
	c := *w
	c.Store, c.reg.Store = s, s
	return &c
}

func (w *storedJob) create(np int) *storedJob {
	w.t.Helper()
	j := *aJob(np).Job
	j.Name = w.Job
	if w.uid != "" {
		j.UID = w.uid
	}
	w.must(w.Create(w.t.Context(), j))
	return w
}

func (w *storedJob) see() *rendezvous.Snapshot {
	w.t.Helper()
	s, err := rendezvous.Read(w.t.Context(), w.Store, w.Job)
	w.must(err)
	return &s
}

// life returns a registration with which node would join now.
func (w *storedJob) life(node string) membership.Node {
	w.lives++
	lease, _, err := w.reg.Grant(w.t.Context(), time.Hour)
	w.must(err)
	return membership.Node{Ref: membership.Ref{Node: node,
		Incarnation: membership.Incarnation(fmt.Sprintf("%s%d", node, w.lives)), Address: node + ":1"},
		Attempt: 1, Host: node, Machine: node, MachineID: "m-" + node, Slots: 1, Lease: lease}
}

func (w *storedJob) join(nodes ...string) *storedJob {
	w.t.Helper()
	for _, name := range nodes {
		n := w.life(name)
		rev, err := w.reg.Join(w.t.Context(), membership.Joining{Node: n, JobRev: w.see().Job.Rev})
		w.must(err)
		n.Rev = rev
		w.nodes[name] = n
	}
	return w
}

// expire ends the lease of a node.
func (w *storedJob) expire(node string) *storedJob {
	w.t.Helper()
	w.must(w.Store.Revoke(w.t.Context(), w.nodes[node].Lease))
	return w
}

// again joins node as another incarnation.
func (w *storedJob) again(node string) {
	w.t.Helper()
	if n := w.see().Node(node); n != nil {
		w.must(w.reg.TakeOver(w.t.Context(), *n))
	}
	w.join(node)
}

// reregister puts the registration of node on a new lease.
func (w *storedJob) reregister(node string) {
	w.t.Helper()
	n := w.nodes[node]
	n.Rev, n.Lease = 0, w.life(node).Lease
	rev, err := w.reg.Reregister(w.t.Context(), n, w.see().World.Rev)
	w.must(err)
	n.Rev = rev
	w.nodes[node] = n
}

func (w *storedJob) me() membership.Node { return w.nodes["a"] }

// next is a proposal of these members by a planner that read s.
func (w *storedJob) next(s *rendezvous.Snapshot, members ...string) plan.Propose {
	world := rendezvous.World{UID: s.Job.UID, Generation: s.Fence + 1, Attempt: 1, Phase: rendezvous.Forming,
		Count: len(members), Slots: 1, NP: s.Wish.NP}
	for _, m := range members {
		world.Members = append(world.Members, w.nodes[m].Ref)
	}
	return plan.Propose{World: world}
}

func seen(n membership.Node, rev int64) verdict.Member { return verdict.Member{Ref: n.Ref, Rev: rev} }

func (w *storedJob) propose(members ...string) *storedJob {
	w.t.Helper()
	s := w.see()
	_, err := w.Propose(w.t.Context(), s, w.me(), w.next(s, members...))
	w.must(err)
	return w
}

// run takes generation 1 of these members from the proposal to running.
func (w *storedJob) run(members ...string) *storedJob {
	w.t.Helper()
	w.propose(members...)
	for _, m := range members {
		w.must(w.Ready(w.t.Context(), w.see().World, w.nodes[m],
			rendezvous.Ready{Host: m, Ports: []int{1, 2, 3}}))
	}
	_, err := w.Run(w.t.Context(), w.see(),
		txn.Starting{Step: plan.Run{Master: rendezvous.Master{Host: members[0], Port: 1, Store: 2}}})
	w.must(err)
	return w
}

func (w *storedJob) hold() *storedJob {
	w.t.Helper()
	_, err := w.Hold(w.t.Context(), w.see(), w.me(),
		plan.Hold{Hold: rendezvous.Hold{Why: rendezvous.NodesMissing}})
	w.must(err)
	return w
}

func (w *storedJob) stop() *storedJob {
	w.t.Helper()
	_, err := w.End(w.t.Context(), w.see(),
		plan.End{Phase: rendezvous.Stopped, Outcome: rendezvous.Outcome{Code: 93}})
	w.must(err)
	return w
}

// exit: a worker of node ended with 0.
func (w *storedJob) exit(node string) { w.exitWith(node, 0) }

func (w *storedJob) exitWith(node string, code int) {
	w.t.Helper()
	_, err := w.Exit(w.t.Context(), w.see().World, node,
		rendezvous.Exit{Incarnation: w.nodes[node].Incarnation, Codes: []*int{&code}})
	w.must(err)
}

// commit: rank 0 commits, with the fence of the generation that wrote the bytes.
func (w *storedJob) commit() {
	w.t.Helper()
	s := w.see()
	r := checkpoint.Record{Store: w.Store, Job: w.Job, UID: s.Job.UID, Self: "a"}
	next := checkpoint.Head{Generation: s.World.Generation, Manifest: checkpoint.Hash{1}}
	_, err := r.Commit(w.t.Context(), next, s.Head, []membership.Node{w.me()})
	w.must(err)
}

// touch writes the value of key again, at a new revision.
func (w *storedJob) touch(key string) {
	w.t.Helper()
	r, err := w.Store.Get(w.t.Context(), key, "")
	w.must(err)
	e := r.One()
	if e == nil {
		w.t.Fatalf("nothing is at %s", key)
	}
	w.put(key, e.Value)
}

func (w *storedJob) put(key string, value []byte) {
	w.t.Helper()
	_, err := w.Store.Txn(w.t.Context(), store.Txn{Then: []store.Write{store.Put(key, value)}})
	w.must(err)
}

// entries returns everything below the job, by key.
func (w *storedJob) entries() map[string]store.Entry {
	w.t.Helper()
	r, err := w.Store.Get(context.WithoutCancel(w.t.Context()), w.Job.Prefix(), store.End(w.Job.Prefix()))
	w.must(err)
	m := map[string]store.Entry{}
	for _, e := range r.Entries {
		m[e.Key] = e
	}
	return m
}

// changed are the keys that differ.
func changed(before, after map[string]store.Entry) []string {
	var out []string
	for k, e := range after {
		if old, ok := before[k]; !ok || !cmp.Equal(old, e) {
			out = append(out, k)
		}
	}
	for k := range before {
		if _, ok := after[k]; !ok {
			out = append(out, k+" (deleted)")
		}
	}
	slices.Sort(out)
	return out
}
