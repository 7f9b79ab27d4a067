package machine

import (
	"time"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// startTiming is the timing of the World that this agent turned to running.
type startTiming struct {
	ran    schema.Generation // that World
	sign   time.Time
	timing rendezvous.Timing
}

// sign returns the sign of a change that this agent saw and the store may not show yet.
func (m *Machine) sign() string {
	if g := m.workers.Group; g != nil && len(g.Failures) > 0 && g.Halt == message.NoHalt {
		return rendezvous.SignFailure
	}
	return string(m.peers.Sign())
}

// publishTiming writes the timing of a start, once workers run here in a World that this agent
// turned to running.
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
	m.out.Do(message.PublishTiming{World: g.World, Timing: t.timing})
}
