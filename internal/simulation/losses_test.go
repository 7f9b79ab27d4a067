package simulation

import (
	"slices"
	"testing/synctest"
	"time"

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

// back is the time within which a World runs after faults ended and every node is there (G6). If the
// store lost the job, and no agent of it lived, the operator decides first.
func (s *faulty) back() time.Duration {
	if s.missed {
		return 85 * time.Second
	}
	return 25 * time.Second
}

// storeAlone lets only the store fail, or the connections to it. G5: no node is evicted because of
// that, and no worker ends. A World may still grow, because nodes returned. Workers that report a
// wrong state may fail in a grown World, and the next World then has the members of before.
func (s *faulty) storeAlone() {
	s.t.Helper()
	was := s.calm()
	s.mu.Lock()
	failed := s.failed
	s.mu.Unlock()
	how := s.storeFails()
	s.disturbed(s.names...)
	time.Sleep(5 * time.Second)
	is := s.snapshot().World
	s.mu.Lock()
	defer s.mu.Unlock()
	if is == nil || is.Ledger.Lost != was.Ledger.Lost || is.Count < was.Count ||
		is.Generation != was.Generation && is.Count == was.Count && s.failed == failed {
		s.wrongf("G5: generation %d of %d nodes ran; the store alone failed (%s), and then there was %+v",
			was.Generation, was.Count, how, is)
	}
}

// storeFails makes the store fail for a while, now and then for minutes. It returns how.
func (s *faulty) storeFails() string {
	span, kinds := time.Duration(s.r.IntN(20))*time.Second, 2
	if s.mix.rare {
		kinds = 6
		if s.r.IntN(30) == 0 {
			span *= 30
		}
	}
	how, begin, end := "it stands still", s.etcd.Freeze, s.etcd.Thaw
	switch s.r.IntN(kinds) {
	case 0:
	case 1:
		how, begin, end = "it is down", s.etcd.Down, s.etcd.Up
	case 2:
		how, begin, end = "no answer of it arrives", s.ways(wayBack), s.ways(noWay)
	case 3:
		how, begin, end = "no request to it arrives", s.ways(wayOut), s.ways(noWay)
	case 4:
		how, begin, end = "no watch hears anything", s.deaf(true), s.deaf(false)
	default:
		how = "it is full, and is compacted"
		begin = func() { s.etcd.Full(true) }
		end = func() {
			s.etcd.Full(false)
			s.etcd.Compact(s.etcd.Rev())
			s.gaps = true
		}
	}
	s.note("the store alone fails: %s, for %v", how, span)
	begin()
	time.Sleep(span)
	end()
	return how
}

// ways cuts one way between all agents and the store, or opens both.
func (s *faulty) ways(way oneWay) func() {
	return func() {
		for _, name := range s.names {
			if a := s.at[name]; a != nil {
				s.cutOneWay(a, way)
			}
		}
	}
}

// deaf returns a function that closes the watches of all agents, or opens them.
func (s *faulty) deaf(on bool) func() { return func() { s.othersHear("", !on) } }
