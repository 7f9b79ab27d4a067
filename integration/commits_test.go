package integration

import (
	"encoding/binary"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/etcd"
)

// One generation makes as many commits as in months, with a real elasticd and an agent that follows
// the job. The size of the job in the store, the memory of both processes, and the time of status
// stay bounded. Transactions, retention and the trimming of events are those of an agent. No files
// are saved. COUNT sets the number of commits.
func TestManyCommitsInOneGeneration(t *testing.T) {
	t.Parallel()
	commits := 600
	if n, err := strconv.Atoi(os.Getenv("COUNT")); err == nil {
		commits = n
	}
	p := newSandbox(t)
	server := p.daemons(1)[0]
	a := p.run("--node=a", "--np=1", "--job_id=x", "sleep", "10000")
	p.running("x", 1, 1)
	s, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{p.at}})
	if err != nil {
		t.Fatal(err)
	}
	c := committer{t: t, store: s, job: "x"}
	snap, err := rendezvous.Read(t.Context(), s, c.job)
	if err != nil {
		t.Fatal(err)
	}
	c.record = &checkpoint.Record{Store: s, Job: c.job, UID: snap.Job.UID, Self: "a"}
	c.trim = &history.Trimmer{Store: s, Job: c.job}
	nodes := []membership.Node{{Ref: snap.World.Members[0], Machine: "m"}}
	var first, last sample
	began := time.Now()
	for n := range commits {
		c.commit(nodes)
		if done := n + 1; done%(commits/10) == 0 {
			last = c.measure(p, server, a)
			t.Logf("%d commits in %s: %+v", done, time.Since(began).Round(time.Second), last)
			if done == commits/10 {
				first = last
			}
		}
	}
	if limit := history.Kept + 2*history.TrimEvery + 50; last.keys > limit || last.bytes > 1<<20 {
		t.Errorf("%d keys of %d bytes after %d commits, the limits are %d and 1 MiB",
			last.keys, last.bytes, commits, limit)
	}
	if grown := last.agent - first.agent; grown > 64<<20 {
		t.Errorf("the agent has %d bytes more than after the first tenth", grown)
	}
	p.must("stop", "x")
	p.ends(a, 93)
}

// committer commits like the agent of rank 0.
type committer struct {
	t      *testing.T
	store  store.Store
	job    schema.Job
	record *checkpoint.Record
	trim   *history.Trimmer
	seen   manifest.Head
	n      uint64
}

func (c *committer) commit(nodes []membership.Node) {
	c.t.Helper()
	c.n++
	head := manifest.Head{Generation: 1, Bytes: 1, Time: time.Now().UTC()}
	binary.BigEndian.PutUint64(head.Manifest[:], c.n)
	var err error
	if c.seen, err = c.record.Commit(c.t.Context(), head, c.seen, nodes); err != nil {
		c.t.Fatal(err)
	}
	_, all, err := c.record.Read(c.t.Context())
	if err == nil {
		err = c.record.Drop(c.t.Context(), 1, c.seen,
			checkpoint.Retention{Keep: 3, Replicas: 2}.Surplus(all, c.seen))
	}
	if err == nil {
		err = c.trim.Wrote(c.t.Context(), 2)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// sample is the size and cost of a job after some commits.
type sample struct {
	keys, bytes   int
	status        time.Duration
	agent, server int64 // resident bytes
}

func (c *committer) measure(p *sandbox, server *daemon, a *proc) (m sample) {
	c.t.Helper()
	r, err := c.store.Get(c.t.Context(), c.job.Prefix(), store.End(c.job.Prefix()))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, e := range r.Entries {
		m.keys++
		m.bytes += len(e.Key) + len(e.Value)
	}
	began := time.Now()
	p.must("status", "x")
	m.status = time.Since(began).Round(time.Millisecond)
	_, m.agent = cost(a.cmd.Process.Pid)
	_, m.server = cost(server.x.cmd.Process.Pid)
	return m
}
