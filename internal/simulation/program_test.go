package simulation

import (
	"errors"
	"github.com/elasticd/elastic/internal/agent"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// makeAgentOf makes an agent that runs a program.
func (s *sim) makeAgentOf(name, program string) *simAgent {
	a := s.makeAgent(name)
	a.cfg.Job.Origin = rendezvous.NewOrigin("ada", "lab1", []string{"python", program})
	return a
}

// A node with another program than the registered nodes is refused, and changes nothing.
func TestOtherProgramIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		before func(s *sim)
		given  func(c *agent.Config)
		node   string
		want   string // "": it joins
	}{
		"a node runs the job's program": {node: "b",
			want: "job x runs `python train.py`, and this node was given `python other.py`"},
		"it is meant": {node: "b", given: func(c *agent.Config) { c.OtherProgram = true }},
		"a node runs this one": {node: "b", before: func(s *sim) {
			c := s.makeAgentOf("c", "other.py")
			c.cfg.OtherProgram = true
			s.run(c)
			s.until("c is here", 5*time.Second,
				func(x rendezvous.Snapshot) bool { return x.Node("c") != nil })
		}},
		"the node that ran it is this one":     {node: "a", before: func(s *sim) { s.agents[0].kill() }},
		"the node that ran it does not answer": {node: "b", before: func(s *sim) { s.agents[0].kill() }},
		"this node does not say what it runs": {node: "b",
			given: func(c *agent.Config) { c.Job.Origin = rendezvous.Origin{} }},
		"it runs the same program as the others": {node: "b", given: func(c *agent.Config) {
			c.Job.Origin = rendezvous.NewOrigin("bob", "lab2", []string{"python", "train.py"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSim(t, "1:3", 1)
				s.run(s.makeAgentOf("a", "train.py"))
				s.until("generation 1 runs", 10*time.Second, s.running(1, 1))
				if c.before != nil {
					c.before(s)
				}
				b := s.makeAgentOf(c.node, "other.py")
				if c.given != nil {
					c.given(&b.cfg)
				}
				before := s.snapshot()
				s.run(b)
				if c.want == "" {
					s.until("it is here", 10*time.Second, func(x rendezvous.Snapshot) bool {
						n := x.Node(c.node)
						return n != nil && n.Rev > before.Rev
					})
					s.finish()
					return
				}
				<-b.done
				if refused, ok := errors.AsType[*problem.Error](b.result.Err); !ok ||
					refused.Code != problem.JobDiffers || refused.Message != c.want ||
					refused.Why != "node a is in the job and runs the first" || b.result.Status != 2 {
					t.Errorf("it ended with %+v\n%s", b.result, s.story())
				}
				if x := s.snapshot(); x.Node(c.node) != nil || x.World.Generation != before.World.Generation {
					t.Errorf("something changed\n%s", s.story())
				}
				s.finish()
			})
		})
	}
}
