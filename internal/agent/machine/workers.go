package machine

import (
	"errors"
	"strings"

	"github.com/elasticd/elastic/internal/agent/message"

	"github.com/elasticd/elastic/internal/agent/workers"
	"github.com/elasticd/elastic/pkg/membership"
)

// workerFacts returns the inputs of decisions about this node's workers.
func (m *Machine) workerFacts() *workers.Facts {
	o := &m.seen
	f := &workers.Facts{Now: m.now, Self: m.self.node, Job: m.self.job, Joined: m.self.joined, Rank: -1,
		World: o.world, AsOf: o.asOf, Ran: o.ran, Stale: o.stale, AwaySince: o.awaySince, Over: m.over != nil}
	if rank, member := m.member(); member {
		f.Rank = rank
	}
	f.Dropped = m.self.listed && f.Rank < 0
	if o.readFailed {
		f.Overtaken = o.peerGeneration
	}
	if m.leave != nil {
		f.Leaving = &m.leave.Leaving
	}
	return f
}

func (m *Machine) applyReady(e message.Readied) {
	m.out.AnsweredFor(message.KindReady, e.Generation, e.Err)
	m.noteHindrance(e)
	if e.Err == nil {
		m.noteWritten(nil) // the memory is written before Ready is sent
		m.memory.world = max(m.memory.world, e.Generation)
		if m.generation() == e.Generation && e.Begun.After(m.seen.asOf) {
			m.seen.asOf = e.Begun // Ready was applied, so there was no newer World
		}
	}
	m.workers.ApplyReady(e)
}

// noteHindrance tells the user once why this node is not ready, because the others wait for it. If
// the node never can be ready, it leaves.
func (m *Machine) noteHindrance(e message.Readied) {
	var unable interface{ ExitCode() int }
	if errors.As(e.Err, &unable) {
		if m.leave == nil {
			m.leave = &departure{Leaving: message.Leaving{Reason: membership.Unfit,
				Status: unable.ExitCode(), Err: e.Err}}
		}
		return
	}
	if e.Local && m.unready < e.Generation {
		m.unready = e.Generation
		m.say("not ready for generation %d: %s; trying again",
			e.Generation, strings.ReplaceAll(e.Err.Error(), "\n", "; "))
	}
}
