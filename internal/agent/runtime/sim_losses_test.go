package runtime

import (
	"slices"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// diesProposing makes a node die with the store at the moment in which it proposes the next
// generation, after its workers failed.
func (s *faulty) diesProposing(a *simAgent, _ time.Duration) { s.proposer(a) }

// diesUnheard is diesProposing before another node hears of the proposal. The node is started again
// at once, and the job is made again from its disk.
func (s *faulty) diesUnheard(a *simAgent, _ time.Duration) {
	s.dieUnheard(true)
	by, died := s.proposer(a)
	s.dieUnheard(false)
	if died {
		s.up(by)
	}
	s.othersHear(by, true)
}

// dieUnheard sets whether other nodes miss the proposal of a node that dies with it.
func (s *faulty) dieUnheard(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unheard = on
}

// proposer makes the workers of a fail, and the node that then proposes die with the store.
func (s *faulty) proposer(a *simAgent) (by string, died bool) {
	s.note("the workers of %s end; the node that proposes dies with the store", a.name)
	sent := make(chan struct{})
	s.mu.Lock()
	s.doomed, s.proposed = "*", sent
	for _, g := range a.groups {
		g.fail()
	}
	s.mu.Unlock()
	before := s.snapshot().Fence
	select {
	case <-sent:
	case <-time.After(3 * time.Second):
	}
	synctest.Wait() // it has arrived, and no other node has heard of it
	s.mu.Lock()
	by = s.doomed
	s.doomed = ""
	s.mu.Unlock()
	doomed := s.at[by]
	if doomed == nil || doomed.isDead() || s.snapshot().Fence <= before {
		return by, false
	}
	w := s.snapshot().World
	s.mu.Lock()
	s.noteWorld(w)
	s.mu.Unlock()
	doomed.kill()
	s.lose("wiped", s.etcd.Wipe)
	s.old = s.etcd.Backup()
	return by, true
}

// dooms makes the awaited proposal of a story be applied without an answer. If its node must die
// unheard, the other agents do not see the proposal.
func (s *faulty) dooms(a *simAgent, op memory.Op) bool {
	s.mu.Lock()
	if s.doomed != "*" || !slices.ContainsFunc(op.Txn.Then,
		func(w store.Write) bool { return w.Key == s.job.Name.Fence() }) {
		s.mu.Unlock()
		return false
	}
	s.doomed = a.name
	close(s.proposed)
	unheard := s.unheard
	s.mu.Unlock()
	if unheard {
		s.othersHear(a.name, false)
	}
	return true
}

// othersHear opens or closes the watches of all agents but one.
func (s *faulty) othersHear(but string, hear bool) {
	for _, name := range s.names {
		if a := s.at[name]; a != nil && name != but {
			a.client.Deaf(!hear)
		}
	}
}

// comesAlone ends a node, lets the others go on until they have committed more, and ends them with
// the store. The first node then returns alone, and waits for longer than the limit.
func (s *faulty) comesAlone(a *simAgent, _ time.Duration) {
	s.note("%s ends, and later all others with the store", a.name)
	a.kill()
	s.mu.Lock()
	was := s.head.Number
	s.mu.Unlock()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		s.mu.Lock()
		more := s.head.Number > was+1
		s.mu.Unlock()
		if more {
			break
		}
	}
	s.lose("wiped", s.etcd.Wipe)
	s.old = s.etcd.Backup()
	s.killNodes()
	s.up(a.name)
	time.Sleep(70 * time.Second)
}

// killNodes ends all agents.
func (s *faulty) killNodes() {
	for _, n := range s.names {
		if a := s.at[n]; a != nil {
			a.kill()
		}
	}
}

// knowMore returns the hosts whose disks have more of the job than snap shows. mu is held.
func (s *sim) knowMore(snap *rendezvous.Snapshot) map[string]bool {
	more := map[string]bool{}
	for name, h := range s.hosts {
		c, ok := h.memory[h.node]
		if !ok || snap.Job == nil || c.Job.UID != snap.Job.UID {
			continue
		}
		known := c.Known.Number
		for _, saved := range h.saved[h.node] {
			known = max(known, saved.Number)
		}
		if newest, err := readonly.New(h.kept.chunks).Newest(); err == nil {
			known = max(known, newest.Number)
		}
		more[name] = c.Generation > snap.Fence || known > snap.Head.Number
	}
	return more
}

// allKnewMore records an error if workers begin in w, which was made from an older state of the
// store, although every member knew more when the store was set back. A proposal from before may
// arrive late. mu is held.
func (s *sim) allKnewMore(w *rendezvous.World) {
	if w != nil && !slices.ContainsFunc(w.Members, func(m membership.Ref) bool { return !s.knew[m.Node] }) {
		s.fromOlder = w.Proposal
	}
}
