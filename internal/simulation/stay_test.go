package simulation

import (
	"context"
	"errors"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/schema"
)

// begin makes a worker that can stay report it, after the time for its imports. mu is held.
func (g *simGroup) begin() {
	if g.stay == stayNot {
		return
	}
	time.AfterFunc(time.Duration(g.a.s.rng.IntN(1500))*time.Millisecond, func() {
		g.a.s.mu.Lock()
		defer g.a.s.mu.Unlock()
		if !g.ended && g.a.node != "" {
			g.can, g.step = true, max(g.step, 0)
			g.events <- message.Staying{Generation: g.Start.World.Generation, Can: true}
		}
	})
}

func (g *simGroup) Generation() schema.Generation {
	g.a.s.mu.Lock()
	defer g.a.s.mu.Unlock()
	return g.Start.World.Generation
}

// Pause plays how the worker leaves its generation.
func (g *simGroup) Pause(ctx context.Context) (*int64, error) {
	s := g.a.s
	after := s.between(1, 400)
	if g.Start.Waits {
		after = s.between(1000, 8000) // its imports
	}
	if g.stay == staySilent || g.Start.Waits && g.stay == stayNot {
		after = time.Hour
	}
	select {
	case <-time.After(after):
	case <-g.gone:
		return nil, errors.New("it has ended")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if g.still != nil { // it finishes a save that it began
		close(g.left)
		<-g.still
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.ended {
		return nil, errors.New("it has ended")
	}
	if g.Start.Waits {
		s.tracef("%s: worker waits for its first generation", g.a.label())
		return nil, nil
	}
	s.tracef("%s: worker leaves generation %d", g.a.label(), g.Start.World.Generation)
	g.paused = true
	if g.stay == stayBroken {
		time.AfterFunc(time.Duration(s.rng.IntN(300))*time.Millisecond, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			g.end(&message.WorkerExit{Code: 1})
		})
	}
	held := g.step
	if g.stay == stayLiar && (s.lie == nil || s.lie()) {
		held = max(0, g.step+int64(s.rng.IntN(21)-10))
	}
	if held < 0 {
		return nil, nil
	}
	return &held, nil
}

// Continue plays how the worker takes the World.
func (g *simGroup) Continue(_ context.Context, st message.Start) error {
	s := g.a.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.ended || g.a.isDead() || !g.paused || !g.can {
		return errors.New("it has ended")
	}
	s.tracef("%s: worker goes on in generation %d, rank %d of %d",
		g.a.label(), st.World.Generation, st.Rank, st.World.Count)
	s.checkStart(g.a, st)
	if st.World.Generation <= g.Start.World.Generation {
		s.wrongf("G4: %s goes from generation %d to %d",
			g.a.label(), g.Start.World.Generation, st.World.Generation)
	}
	if !g.Start.Waits && st.World.Rollback > g.Start.World.Generation { // those that wait have no state
		s.wrongf("%s takes the state of generation %d beyond the rollback of %d",
			g.a.label(), g.Start.World.Generation, st.World.Rollback)
	}
	if g.Start.Waits {
		s.first++
	}
	g.Start, g.paused = st, false
	s.kept++
	if s.begins != nil {
		s.begins(g)
	}
	return nil
}
