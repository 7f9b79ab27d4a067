package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/progress"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/etcd"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// recorded is a job on a store in memory, whose records are made by the requests of agents, without
// agents.
type recorded struct {
	b *testing.B
	txn.Requests
	lease store.Lease
	lives int
}

// recordsOf returns the records of a job of n nodes, oldest first: a node was lost and came back,
// again and again, and the job saved.
func recordsOf(b *testing.B, n, losses int) []store.Entry {
	r := &recorded{b: b, Requests: txn.Requests{Store: memory.New().Client("records"), Job: "fleet"}}
	lease, _, err := r.Store.Grant(b.Context(), time.Hour)
	r.must(err)
	r.lease = lease
	r.must(r.Create(b.Context(), rendezvous.Job{Name: r.Job, UID: "u", Attempt: 1, Slots: 8,
		Limits: rendezvous.Limits{Min: 1, Max: n}, Time: time.Now(),
		Rules: rendezvous.Rules{MaxRestarts: 3, Replicas: 2, Keep: 3, Load: "all"}}))
	for i := range n {
		r.joins(fmt.Sprintf("node%04d", i))
	}
	r.world(rendezvous.CauseFirst)
	for range losses {
		r.saves(20)
		lost := r.seen().World.Members[n/2].Node
		_, err := r.Store.Txn(b.Context(), store.Txn{Then: []store.Write{store.Delete(r.Job.Node(lost))}})
		r.must(err)
		r.world(rendezvous.CauseNodeLost)
		r.saves(20)
		r.joins(lost)
		r.world(rendezvous.CauseNodeJoined)
	}
	r.curve()
	read, err := r.Store.Get(b.Context(), r.Job.Prefix(), store.End(r.Job.Prefix()))
	r.must(err)
	slices.SortStableFunc(read.Entries, func(a, b store.Entry) int { return int(a.Rev - b.Rev) })
	return read.Entries
}

func (r *recorded) must(err error) {
	r.b.Helper()
	if err != nil {
		r.b.Fatal(err)
	}
}

func (r *recorded) seen() *rendezvous.Snapshot {
	r.b.Helper()
	s, err := rendezvous.Read(r.b.Context(), r.Store, r.Job)
	r.must(err)
	return &s
}

func (r *recorded) joins(node string) {
	r.lives++
	job, err := r.Store.Get(r.b.Context(), r.Job.Job(), "")
	r.must(err)
	_, err = membership.Registry{Store: r.Store, Job: r.Job}.Join(r.b.Context(), membership.Joining{
		JobRev: job.One().Rev, Node: membership.Node{Attempt: 1, Host: node, Machine: node, MachineID: "m-" + node,
			Hostname: node, Slots: 8, Lease: r.lease, Since: time.Now(), Ref: membership.Ref{Node: node,
				Incarnation: membership.NewIncarnation(), Address: fmt.Sprintf("10.1.2.3:%d", 20_000+r.lives)}}})
	r.must(err)
}

// world makes a world of all registered nodes run.
func (r *recorded) world(cause rendezvous.Cause) {
	ctx, s := r.b.Context(), r.seen()
	p := plan.Propose{World: rendezvous.World{UID: s.Job.UID, Generation: s.Fence + 1, Attempt: 1,
		Phase: rendezvous.Forming, Count: len(s.Nodes), Slots: 8, NP: len(s.Nodes), Cause: cause}}
	for _, n := range s.Nodes {
		p.World.Members = append(p.World.Members, n.Ref)
	}
	if s.World != nil {
		p.World.Previous = s.World.Size()
		for _, m := range s.World.Members {
			if s.Node(m.Node) == nil {
				p.Lost = append(p.Lost, verdict.Member{Ref: m, Reason: "silent", Why: "silent"})
			}
		}
	}
	_, err := r.Propose(ctx, s, s.Nodes[0], p)
	r.must(err)
	w := r.seen().World
	for i, n := range s.Nodes {
		r.must(r.Ready(ctx, w, n, rendezvous.Ready{Host: n.Host, Ports: []int{3*i + 1, 3*i + 2, 3*i + 3}}))
	}
	took := int64(200)
	timing := rendezvous.Timing{By: s.Nodes[0].Node, Sign: "silent", Decided: &took, Proposed: &took,
		Stopped: &took, Barrier: &took, Started: &took, Last: s.Nodes[len(s.Nodes)-1].Node}
	_, err = r.Run(ctx, r.seen(), txn.Starting{Idle: time.Second, Timing: timing,
		Step: plan.Run{Master: rendezvous.Master{Host: "10.1.2.3", Port: 1, Store: 2}}})
	r.must(err)
	r.must(r.PublishTiming(ctx, w, timing))
}

// saves commits checkpoints that two nodes have, and removes those that are too many.
func (r *recorded) saves(n int) {
	s := r.seen()
	record := &checkpoint.Record{Store: r.Store, Job: r.Job, UID: s.Job.UID, Self: s.Nodes[0].Node}
	for head := s.Head; n > 0; n-- {
		step := int64(head.Number)*100 + 100
		next, err := record.Commit(r.b.Context(), manifest.Head{Generation: s.Fence, Step: &step,
			Manifest: manifest.Sum(schema.Encode(step)), Bytes: 1 << 30, Time: time.Now()}, head, s.Nodes[:2])
		r.must(err)
		head = next
	}
	s = r.seen()
	old := s.History[:max(0, len(s.History)-s.Job.Rules.Keep)]
	r.must(record.Drop(r.b.Context(), s.Fence, s.Head, old))
}

// curve writes progress over the life of the job.
func (r *recorded) curve() {
	w := r.seen().World
	var c progress.Curve
	for i := range 200 {
		p := reportOf(int64(100*i), w.Generation)
		p.Time = p.Time.Add(time.Duration(i-200) * lasted / 200)
		c, _ = c.With(p)
	}
	r.must(r.Progress(r.b.Context(), w, txn.Report{Progress: reportOf(20_000, w.Generation),
		Also: []store.Write{store.Put(r.Job.Curve(), schema.Encode(c))}}))
}

func reportOf(step int64, g schema.Generation) rendezvous.Progress {
	loss, rate, every := 1/float64(step+1), 1000.5, rendezvous.Seconds(2*time.Second)
	return rendezvous.Progress{Generation: g, Step: &step, Loss: &loss, SamplesPerSecond: &rate,
		Interval: &every, Time: time.Now()}
}

// lasted is how long ago the jobs began.
const lasted = 8 * time.Hour

// night is a server on which jobs have run for hours.
type night struct {
	b      *testing.B
	s      store.Store
	lease  store.Lease
	worlds []*rendezvous.World
	jobs   []schema.Job
}

func newNight(b *testing.B, at string) *night {
	s, err := etcd.Open(b.Context(), etcd.Config{Endpoints: []string{at}})
	if err != nil {
		b.Fatal(err)
	}
	lease, _, err := s.Grant(b.Context(), time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	return &night{b: b, s: s, lease: lease}
}

// copy writes the records of a job as those of the job to, in the order in which they were written.
// All registrations are on one lease.
func (n *night) copy(entries []store.Entry, to schema.Job) {
	const from schema.Job = "fleet"
	at, saves := time.Now().Add(-lasted), 0
	for _, e := range entries {
		if strings.Contains(string(e.Value), string(history.Committed)) {
			saves++
		}
	}
	var then []store.Write
	for i, e := range entries {
		w := store.Put(to.Prefix()+strings.TrimPrefix(e.Key, from.Prefix()), e.Value)
		switch {
		case strings.HasPrefix(w.Key, to.Nodes()):
			w.Lease = n.lease
		case strings.HasPrefix(w.Key, to.Events()):
			if at = at.Add(20 * time.Millisecond); strings.Contains(string(e.Value), string(history.Committed)) {
				at = at.Add((lasted - time.Minute) / time.Duration(saves)) // time passes between two saves
			}
			w.Value = n.moved(e, to, at)
		}
		then = append(then, w)
		if i+1 < len(entries) && entries[i+1].Rev == e.Rev {
			continue
		}
		if _, err := n.s.Txn(n.b.Context(), store.Txn{Then: then}); err != nil {
			n.b.Fatal(err)
		}
		then = nil
	}
	s, err := rendezvous.Read(n.b.Context(), n.s, to)
	if err != nil {
		n.b.Fatal(err)
	}
	n.jobs, n.worlds = append(n.jobs, to), append(n.worlds, s.World)
}

// moved returns events as those of another job and time.
func (n *night) moved(e store.Entry, to schema.Job, at time.Time) []byte {
	events, err := history.Decode(&e)
	if err != nil {
		n.b.Fatal(err)
	}
	for i := range events {
		events[i].Job, events[i].Time = to, at
	}
	return schema.Encode(events)
}

// goesOn writes progress of each job every two seconds until stop.
func (n *night) goesOn() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var writer sync.WaitGroup
	writer.Go(func() {
		every := time.NewTicker(2 * time.Second / time.Duration(len(n.jobs)))
		defer every.Stop()
		for i := int64(0); ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
			}
			k := int(i) % len(n.jobs)
			// a report that is lost is followed by the next one
			_ = txn.Requests{Store: n.s, Job: n.jobs[k]}.Progress(ctx, n.worlds[k],
				txn.Report{Progress: reportOf(20_000+i, n.worlds[k].Generation)})
		}
	})
	return func() { cancel(); writer.Wait() }
}
