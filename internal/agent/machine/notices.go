package machine

import (
	"fmt"

	"github.com/elasticd/elastic/internal/agent/message"
)

// say prints a line for the user.
func (m *Machine) say(format string, args ...any) {
	m.out.Do(message.Say{Line: message.Line{Text: fmt.Sprintf(format, args...)}})
}

// tell prints lines about what changed.
func (m *Machine) tell() {
	for _, l := range m.notices.Lines(m.facts()) {
		m.out.Do(message.Say{Line: l})
	}
}

// facts returns the inputs of the lines for the user.
func (m *Machine) facts() *message.Facts {
	rank, member := m.member()
	o := &m.seen
	f := &message.Facts{Now: m.now, Hint: m.cfg.Hint, Logs: m.self.logs, Node: m.self.node, Job: m.self.job,
		Joined: m.self.joined, Listed: m.self.listed, Member: member, Rank: rank, Leaver: m.leaver(),
		World: o.world, Snapshot: &o.snap, Current: m.current(), View: m.peers.View,
		Quiet: m.workers.Quiet(), Over: m.over,
		Store: message.Store{AwaySince: o.awaySince, Stale: o.stale, SetBack: o.setBack, WrongJob: o.wrongJob,
			Unreadable: o.unreadable}}
	if g := m.workers.Group; g != nil && !g.First {
		f.Workers = &message.Workers{World: &g.World,
			Started: g.Started, Handed: g.Handed, Paused: g.Paused, Dead: g.Dead}
	}
	if m.leave != nil {
		f.Leaving = &m.leave.Leaving
	}
	return f
}
