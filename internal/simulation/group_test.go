package simulation

import (
	"context"
	"fmt"
	"time"

	"github.com/elasticd/elastic/internal/agent"
	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// simGroup is the workers of a node. Those that stay leave a generation some time after they are
// told to, or never.
type simGroup struct {
	a      *simAgent
	Start  message.Start // the start of their present generation
	events chan message.Event
	gone   chan struct{}
	ended  bool
	asked  chan struct{} // closed when they must save and end; nil: they end at once

	stay   stayKind
	can    bool  // it reported that it can stay
	paused bool  // it takes part in no collective
	hung   bool  // it saves no more, and ends when it is killed
	step   int64 // the step that it has reached; -1: it has no state

	left  chan struct{} // closed when it leaves its generation
	still chan struct{} // closed when it saves nothing of it any more; nil: it never saves
}

// stayKind is what a worker does when it is asked to leave its generation.
type stayKind int

const (
	stayNot    stayKind = iota // it has no helper
	stayWell                   // it leaves, and says so
	staySilent                 // it said that it can, and does not answer
	stayLiar                   // it leaves, and reports a wrong step, or a state that it does not have
	stayBroken                 // it leaves, and ends before the next World comes
)

func (a *simAgent) Start(_ context.Context, st message.Start) (agent.Group, error) {
	s := a.s
	time.Sleep(s.rng.latency(a.name, "start", st.World.Generation))
	s.mu.Lock()
	defer s.mu.Unlock()
	g := &simGroup{a: a, Start: st, events: make(chan message.Event, 64), gone: make(chan struct{}), step: -1}
	if a.isDead() {
		return nil, fmt.Errorf("the agent is dead")
	}
	s.tracef("%s starts workers of generation %d, rank %d of %d",
		a.label(), st.World.Generation, st.Rank, st.World.Count)
	if g.paused = st.Waits; !st.Waits {
		s.checkStart(a, st)
	}
	a.groups = append(a.groups, g)
	if s.begins != nil {
		s.begins(g)
	}
	s.program(g)
	g.begin()
	return g, nil
}

// checkStart checks G4: no worker of another generation runs on this node, and workers of older
// generations run only on nodes whose incarnation is not registered. mu is held.
func (s *sim) checkStart(a *simAgent, st message.Start) {
	registered := map[membership.Incarnation]bool{}
	for _, n := range s.entries(s.job.Name.Nodes()) {
		if n, err := schema.Decode[membership.Node](&n); err == nil {
			registered[n.Incarnation] = true
		}
	}
	w, behind := st.World, false // a store that is behind shows registrations that have ended
	for _, f := range s.entries(s.job.Name.Fence()) {
		uid, g, err := schema.ParseFence(f.Value)
		behind = err == nil && uid == w.UID && g < w.Generation
	}
	if !registered[w.Members[st.Rank].Incarnation] {
		return // it was dropped, and does not know that yet
	}
	for _, b := range s.agents {
		for _, g := range b.groups {
			if g.ended {
				continue
			}
			old := g.Start.World
			if b.node == a.node && b.host == a.host && !g.paused {
				s.wrongf("G4: %s starts generation %d beside its worker of %d",
					a.label(), w.Generation, old.Generation)
			}
			if !g.paused && old.Generation < w.Generation && !behind &&
				registered[old.Members[g.Start.Rank].Incarnation] {
				s.wrongf("G4: %s starts generation %d while registered %s runs %d",
					a.label(), w.Generation, b.label(), old.Generation)
			}
		}
	}
}

func (g *simGroup) Hangs() <-chan rendezvous.Failure {
	none := make(chan rendezvous.Failure)
	close(none)
	return none
}

func (g *simGroup) Events() <-chan message.Event { return g.events }
func (g *simGroup) Done() <-chan struct{}        { return g.gone }

// end ends the worker. mu is held.
func (g *simGroup) end(x *message.WorkerExit) {
	if g.ended {
		return
	}
	g.ended = true
	g.a.s.tracef("%s: worker of generation %d ends %v", g.a.label(), g.Start.World.Generation, x)
	if g.a.kept != nil {
		g.a.kept.ended(g.Start.World.Generation, x)
	}
	if x != nil {
		if !x.Ours && x.Signal == "" && x.Code != 0 {
			g.a.s.failed++
		}
		g.events <- message.Exited{Generation: g.Start.World.Generation, WorkerExit: *x}
	}
	close(g.events)
	close(g.gone)
}

// fail ends the worker as one that is killed from outside. mu is held.
func (g *simGroup) fail() { g.end(&message.WorkerExit{Code: 137, Signal: "SIGKILL"}) }

func (g *simGroup) later(d time.Duration, x *message.WorkerExit) {
	time.AfterFunc(d, func() {
		g.a.s.mu.Lock()
		defer g.a.s.mu.Unlock()
		g.end(x)
	})
}

func (g *simGroup) Ask(string, time.Duration) error {
	if g.asked != nil {
		close(g.asked)
		return nil
	}
	g.later(g.a.s.between(10, 800), &message.WorkerExit{Ours: true})
	return nil
}

func (g *simGroup) Stop(ctx context.Context, grace time.Duration) error {
	after := g.a.s.between(1, 200)
	if grace > message.ShortGrace {
		after = time.Second // they were asked, and save first
	}
	g.a.s.mu.Lock()
	if g.hung {
		after = grace
	}
	g.a.s.mu.Unlock()
	g.later(after, &message.WorkerExit{Ours: true, Signal: "SIGTERM", Code: 143})
	select {
	case <-g.gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
