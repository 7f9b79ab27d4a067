package machine

import (
	"time"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// startTiming is where the time went until this agent turned a world running.
type startTiming struct {
	ran    schema.Generation // the world that it turned running
	sign   time.Time
	timing rendezvous.Timing
}

// sign is what this agent saw itself of a change that the store may not show yet.
func (m *Machine) sign() string {
	if g := m.workers.Group; g != nil && len(g.Failures) > 0 && g.Halt == action.NoHalt {
		return rendezvous.SignFailure
	}
	return string(m.peers.Sign())
}

// publishTiming tells where the time went, once workers run here of a world that this agent turned
// running.
func (m *Machine) publishTiming() {
	g, t := m.workers.Group, m.keeper.start
	if t.ran == 0 || g == nil || g.First || !g.Started || g.World.Generation != t.ran {
		return
	}
	m.keeper.start = startTiming{}
	if t.sign.IsZero() {
		return
	}
	t.timing.FromMemory = g.Handed
	t.timing.Started = new(g.StartedAt.Sub(t.sign).Milliseconds())
	m.out.Do(action.PublishTiming{World: g.World, Timing: t.timing})
}
