package cli_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/scaling"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/etcd"
)

// cast plays the nodes of a job: it follows the job and takes every step of the real plan with the
// real requests, and its nodes are ready, and through with saving, at once. It has no workers.
type cast struct {
	t   *testing.T
	st  *etcd.Store
	req txn.Requests
	reg membership.Registry
}

func newCast(t *testing.T, st *etcd.Store, name, np string) *cast {
	c := &cast{t: t, st: st, req: txn.Requests{Store: st, Job: schema.Job(name)},
		reg: membership.Registry{Store: st, Job: schema.Job(name)}}
	if err := c.req.Create(t.Context(), newJob(name, np, time.Now())); err != nil {
		t.Fatalf("create job %s: %v", name, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() { defer close(done); c.play(ctx) }()
	return c
}

// newJob is a job as its first agent would make it.
func newJob(name, np string, at time.Time) rendezvous.Job {
	j := rendezvous.Job{UID: schema.UID("uid-" + name), Attempt: 1, Slots: 1,
		Base: scaling.Base{Nodes: 2, Slots: 1},
		Rules: rendezvous.Rules{MaxRestarts: 3, Grace: rendezvous.Seconds(time.Second), Replicas: 2, Keep: 3,
			Load: "all"},
		Origin: rendezvous.NewOrigin("ada", "lab1", []string{"python", "train.py"}), Time: at}
	if np == "2:4" {
		j.Limits = rendezvous.Limits{Min: 2, Max: 4}
		return j
	}
	n := int(np[0] - '0')
	j.Limits = rendezvous.Limits{Min: n, Max: n, Exact: true}
	return j
}

func (c *cast) join(name string) {
	ctx := c.t.Context()
	s, err := rendezvous.Read(ctx, c.st, c.req.Job)
	if err != nil {
		c.t.Fatal(err)
	}
	lease, _, err := c.reg.Grant(ctx, time.Minute)
	if err != nil {
		c.t.Fatal(err)
	}
	ref := membership.Ref{Node: name, Incarnation: membership.NewIncarnation(), Address: "127.0.0.1:4000"}
	n := membership.Node{Ref: ref, Attempt: s.Job.Attempt, Host: "host", Machine: "boot-" + name, Slots: 1,
		Since: time.Now(), Lease: lease}
	if _, err := c.reg.Join(ctx,
		membership.Joining{Node: n, JobRev: s.Job.Rev, Generation: s.Fence}); err != nil {
		c.t.Fatal(err)
	}
}

// leave revokes a registration without an event.
func (c *cast) leave(name string) {
	s, err := rendezvous.Read(c.t.Context(), c.st, c.req.Job)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.st.Revoke(c.t.Context(), s.Node(name).Lease); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cast) play(ctx context.Context) {
	var marks plan.Observed
	var s rendezvous.Snapshot
	wake := time.NewTimer(time.Hour)
	defer wake.Stop()
	seen := follow.Reader{Store: c.st, Job: c.req.Job}.Follow(ctx, follow.ScopeAll)
	for {
		select {
		case next, ok := <-seen:
			if !ok {
				return
			}
			if next.Err != nil || next.Job == nil {
				continue
			}
			s = next.Snapshot
		case <-wake.C:
		}
		now := time.Now()
		var refs []membership.Ref
		if s.World != nil {
			refs = slices.Concat(s.World.Members, s.World.Leavers)
		}
		v := verdict.Judge(verdict.Records{Members: refs, Nodes: s.Nodes, Left: s.Left, Suspects: s.Suspects},
			verdict.Evidence{}, verdict.Timeouts{}, now)
		marks.Update(&s, v, now)
		if err := c.act(ctx, &s, plan.Next(plan.Facts{Snapshot: &s, View: v, Observed: marks,
			Timeouts: plan.DefaultTimeouts, Now: now}), wake); err != nil &&
			!store.Moved(err) && !errors.Is(err, context.Canceled) && ctx.Err() == nil {
			c.t.Errorf("play job %s: %v", c.req.Job, err)
		}
	}
}

func (c *cast) act(ctx context.Context, s *rendezvous.Snapshot, step plan.Step, wake *time.Timer) error {
	if len(s.Nodes) == 0 {
		return nil // the cast has no agent that would
	}
	me := s.Nodes[0]
	switch step := step.(type) {
	case plan.Nothing:
		if !step.Until.IsZero() {
			wake.Reset(time.Until(step.Until))
		}
		return c.report(ctx, s)
	case plan.Propose:
		_, err := c.req.Propose(ctx, s, me, step)
		return err
	case plan.Hold:
		_, err := c.req.Hold(ctx, s, me, step)
		return err
	case plan.Run:
		fall := rendezvous.Timing{By: me.Node, Sign: rendezvous.SignNodes, Decided: new(int64(1)),
			Proposed: new(int64(7)), Barrier: new(int64(31)), Last: "lab1-2"}
		w, err := c.req.Run(ctx, s, txn.Starting{Step: step, Timing: fall})
		if err != nil {
			return err
		}
		fall.Started = new(int64(60))
		return c.req.PublishTiming(ctx, &w, fall)
	case plan.End:
		_, err := c.req.End(ctx, s, step)
		return err
	}
	return nil
}

// report is what nodes say: ready in a forming world, saved in a planned Hold.
func (c *cast) report(ctx context.Context, s *rendezvous.Snapshot) error {
	w := s.World
	if w == nil {
		return nil
	}
	for _, n := range s.Nodes {
		_, ready := s.Ready[n.Node]
		_, exited := s.Exits[n.Node]
		switch {
		case w.Phase == rendezvous.Forming && !ready:
			if err := c.req.Ready(ctx, w, n,
				rendezvous.Ready{Host: "127.0.0.1", Ports: []int{1, 2, 3}}); err != nil {
				return err
			}
		case w.Phase == rendezvous.Waiting && w.Hold.Planned && !exited && w.Rank(n.Ref) >= 0:
			if _, err := c.req.Exit(ctx, w, n.Node,
				rendezvous.Exit{Incarnation: n.Incarnation, Codes: []*int{nil}, Planned: true}); err != nil {
				return err
			}
		}
	}
	return nil
}
