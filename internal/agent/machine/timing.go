package machine

import (
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// turning is a world that this agent turns running, and where the time up to it went.
type turning struct {
	ran  schema.Generation // it did
	sign time.Time
	fall rendezvous.Waterfall
}

// sign is what this agent saw itself of a change that the store may not show yet.
func (m *Machine) sign() string {
	if c := m.crew; c != nil && c.failed != nil && c.halt == NoHalt {
		return rendezvous.SignFailure
	}
	var sign membership.Sign
	for _, s := range m.mine {
		if sign == "" || s.Sign < sign {
			sign = s.Sign
		}
	}
	return string(sign)
}

// recall tells where the time went, once workers run here that this agent turned the world running for.
func (m *Machine) recall(a *actions) {
	c, t := m.crew, m.turning
	if t.ran == 0 || c == nil || !c.started || c.world.Generation != t.ran {
		return
	}
	m.turning = turning{}
	if t.sign.IsZero() {
		return
	}
	t.fall.Started = new(c.began.Sub(t.sign).Milliseconds())
	a.do("", Recall{World: c.world, Fall: t.fall})
}
