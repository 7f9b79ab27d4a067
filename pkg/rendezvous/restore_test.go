package rendezvous_test

import (
	"errors"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/membership/verdict"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/scaling"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// past is a job with two commits and a world of generation 3 of node a.
type past struct {
	t      *testing.T
	st     store.Store
	req    txn.Requests
	node   membership.Node
	record *checkpoint.Record
}

func newPast(t *testing.T, phase rendezvous.Phase, hold *rendezvous.Hold) *past {
	const job schema.Job = "x"
	p := &past{t: t, st: memory.New().Client("test"),
		node: membership.Node{Ref: membership.Ref{Node: "a", Incarnation: "a1"}, Attempt: 1, Slots: 1}}
	p.req = txn.Requests{Store: p.st, Job: job}
	p.record = &checkpoint.Record{Store: p.st, Job: job, UID: "u", Self: "a"}
	if err := p.req.Create(t.Context(), rendezvous.Job{UID: "u", Attempt: 1,
		Limits: rendezvous.Limits{Min: 1, Max: 1, Exact: true}, Slots: 1,
		Base: scaling.Base{Nodes: 1, Slots: 1}}); err != nil {
		t.Fatal(err)
	}
	p.put(job.Fence(), []byte(schema.FenceValue("u", 3)))
	var outcome *rendezvous.Outcome
	if phase.Ended() {
		outcome = &rendezvous.Outcome{}
	}
	p.put(job.World(),
		schema.Encode(rendezvous.World{UID: "u", Generation: 3, Attempt: 1, Phase: phase, Hold: hold,
			Outcome: outcome, Count: 1, NP: 1, Slots: 1,
			Members: []membership.Ref{p.node.Ref}, Proposal: "p"}))
	var head checkpoint.Head
	for step := range int64(2) {
		var err error
		if head, err = p.record.Commit(t.Context(),
			checkpoint.Head{Generation: 3, Manifest: checkpoint.Hash{byte(step + 1)}, Step: &step}, head,
			[]membership.Node{p.node}); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p *past) put(key string, value []byte) {
	p.t.Helper()
	if _, err := p.st.Txn(p.t.Context(), store.Txn{Then: []store.Write{store.Put(key, value)}}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *past) register() { p.put(p.req.Job.Node("a"), schema.Encode(p.node)) }

func (p *past) see() rendezvous.Snapshot {
	p.t.Helper()
	s, err := rendezvous.Read(p.t.Context(), p.st, p.req.Job)
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func TestRestore(t *testing.T) {
	p := newPast(t, rendezvous.Stopped, nil)
	s := p.see()
	late := s.Head // a commit of generation 3 is on its way
	head, err := p.req.Restore(t.Context(), &s, s.History[0])
	if err != nil {
		t.Fatal(err)
	}
	now := p.see()
	if again := head.Again(head); !head.Restored || again.Restored {
		t.Errorf("restored %v, and committed again %v", head.Restored, again.Restored)
	}
	if head.Number != 3 || now.Head.Number != 3 || now.Head.Manifest != s.History[0].Manifest ||
		*now.Head.Step != 0 ||
		len(now.History) != 3 || now.Head.Rev != head.Rev {
		t.Errorf("the head is %+v, of %d records", now.Head, len(now.History))
	}
	if now.World.Phase != rendezvous.Stopped || now.World.Rev != s.World.Rev {
		t.Errorf("a world that had ended is %s now", now.World.Phase)
	}
	last := now.Events[len(now.Events)-1]
	if last.Kind != history.Committed || last.Fields["number"] != 3. || last.Fields["restored"] != 1. {
		t.Errorf("reported as %+v", last)
	}
	for _, seen := range []checkpoint.Head{late, now.Head} {
		if _, err := p.record.Commit(t.Context(),
			checkpoint.Head{Generation: 3, Manifest: checkpoint.Hash{9}}, seen,
			[]membership.Node{p.node}); !errors.Is(err, checkpoint.ErrFenced) {
			t.Errorf("a late commit over checkpoint %d: %v", seen.Number, err)
		}
	}
	if _, err := p.req.Restore(t.Context(), &s, s.History[1]); !store.Moved(err) {
		t.Errorf("restored on an old view: %v", err)
	}
}

// Each of these happens between the read and the request.
func TestRestoreIsOvertaken(t *testing.T) {
	for name, meanwhile := range map[string]func(*past, *rendezvous.Snapshot){
		"a commit": func(p *past, s *rendezvous.Snapshot) {
			if _, err := p.record.Commit(p.t.Context(), checkpoint.Head{Generation: 3}, s.Head,
				nil); err != nil {
				p.t.Fatal(err)
			}
		},
		"a proposal": func(p *past, s *rendezvous.Snapshot) {
			p.put(p.req.Job.Fence(), []byte(schema.FenceValue("u", 4)))
		},
		"a world": func(p *past, s *rendezvous.Snapshot) {
			p.put(p.req.Job.World(), schema.Encode(*s.World))
		},
		"an attempt": func(p *past, s *rendezvous.Snapshot) { p.put(p.req.Job.Job(), schema.Encode(*s.Job)) },
		"a removal": func(p *past, s *rendezvous.Snapshot) {
			if _, err := p.st.Txn(p.t.Context(),
				store.Txn{Then: []store.Write{store.Delete(p.req.Job.Checkpoint(1))}}); err != nil {
				p.t.Fatal(err)
			}
		},
		"a node": func(p *past, _ *rendezvous.Snapshot) { p.register() },
	} {
		p := newPast(t, rendezvous.Running, nil)
		s := p.see()
		meanwhile(p, &s)
		if _, err := p.req.Restore(t.Context(), &s, s.History[0]); !store.Moved(err) {
			t.Errorf("after %s: %v", name, err)
		}
	}
}

// A node that was only cut off must learn that its generation is over. The next one comes at once.
func TestRestoreOfAWorldWhoseNodesAreAway(t *testing.T) {
	p := newPast(t, rendezvous.Running, nil)
	s := p.see()
	if _, err := p.req.Restore(t.Context(), &s, s.History[0]); err != nil {
		t.Fatal(err)
	}
	now := p.see()
	if now.World.Phase != rendezvous.Waiting || now.World.Hold.Planned || now.World.Turn == s.World.Turn {
		t.Fatalf("the world is %s, held %+v", now.World.Phase, now.World.Hold)
	}
	p.register()
	now = p.see()
	v := verdict.Judge(verdict.Records{Members: now.World.Members, Nodes: now.Nodes},
		verdict.Evidence{}, verdict.Timeouts{}, time.Now())
	step, ok := plan.Next(plan.Facts{Snapshot: &now, View: v,
		Timeouts: plan.DefaultTimeouts, Now: time.Now()}).(plan.Propose)
	if !ok || step.World.Generation != 5 || step.World.Resume.Number != 3 ||
		step.World.Resume.Manifest != s.History[0].Manifest {
		t.Fatalf("the next step is %+v", step)
	}
	if _, err := p.req.Propose(t.Context(), &now, *now.Node("a"), step); err != nil {
		t.Errorf("propose: %v", err)
	}
}

func TestUnrestorable(t *testing.T) {
	planned := &rendezvous.Hold{Planned: true}
	exited := func(p *past) {
		if _, err := p.req.Exit(p.t.Context(), p.see().World, "a",
			rendezvous.Exit{Incarnation: "a1", Planned: true}); err != nil {
			p.t.Fatal(err)
		}
	}
	for _, c := range []struct {
		phase rendezvous.Phase
		hold  *rendezvous.Hold
		here  bool
		then  func(*past)
		want  string
	}{
		{rendezvous.Running, nil, true, nil, "generation 3 is running"},
		{rendezvous.Forming, nil, true, nil, "generation 3 is forming"},
		{rendezvous.Running, nil, false, nil, ""},
		{rendezvous.Waiting, planned, true, nil, "the workers of generation 3 are saving"},
		{rendezvous.Waiting, planned, true, exited, ""},
		{rendezvous.Waiting, planned, false, nil, ""},
		{rendezvous.Waiting, &rendezvous.Hold{}, true, nil, ""},
		{rendezvous.Stopped, nil, true, nil, ""},
		{rendezvous.Failed, nil, false, nil, ""},
		{rendezvous.Done, nil, false, nil, "it is done: nothing starts from its checkpoints any more"},
	} {
		p := newPast(t, c.phase, c.hold)
		if c.here {
			p.register()
		}
		if c.then != nil {
			c.then(p)
		}
		s := p.see()
		if got := txn.Unrestorable(&s); got != c.want {
			t.Errorf("%s %+v, registered %v: %q, want %q", c.phase, c.hold, c.here, got, c.want)
		}
	}
}

func TestGraceOfAStop(t *testing.T) {
	p := newPast(t, rendezvous.Running, nil)
	p.register()
	for _, c := range []struct{ asked, job, want time.Duration }{{0, time.Hour, time.Hour},
		{time.Second, time.Hour, time.Second}, {time.Hour, time.Second, time.Hour}} {
		s := p.see()
		s.Job.Rules.Grace = rendezvous.Seconds(c.job)
		s.Wish.Stop, s.Wish.Grace = s.Job.Attempt, rendezvous.Seconds(c.asked)
		at := time.Now()
		v := verdict.Judge(verdict.Records{Members: s.World.Members, Nodes: s.Nodes},
			verdict.Evidence{}, verdict.Timeouts{}, at)
		step, ok := plan.Next(plan.Facts{Snapshot: &s, View: v, Timeouts: plan.DefaultTimeouts,
			Now: at}).(plan.Hold)
		if !ok || step.Hold.Limit(s.Job) != c.want {
			t.Errorf("asked for %v where the job has %v: %+v", c.asked, c.job, step)
		}
		s.World.Phase, s.World.Hold = rendezvous.Waiting, &step.Hold
		until := at.Add(c.want + plan.DefaultTimeouts.Slack)
		if got := plan.Next(plan.Facts{Snapshot: &s, View: v, Observed: plan.Observed{PhaseSince: at},
			Timeouts: plan.DefaultTimeouts, Now: until.Add(-1)}); got != (plan.Nothing{Until: until}) {
			t.Errorf("a moment before its end: %+v", got)
		}
		if _, ok := plan.Next(plan.Facts{Snapshot: &s, View: v, Observed: plan.Observed{PhaseSince: at},
			Timeouts: plan.DefaultTimeouts, Now: until}).(plan.End); !ok {
			t.Errorf("asked for %v where the job has %v: no end at its end", c.asked, c.job)
		}
	}
}
