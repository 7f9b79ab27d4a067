package runtime

import (
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
)

// back is the time within which a World runs after faults ended and every node is there (G6). If
// the store lost the job, nodes wait a minute longer in three cases: for a machine that is lost
// with its disk, for the nodes of a job that was made again and lost before it had a World (no
// claim names them), and for a node that was in another job since.
func (s *faulty) back() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.missed && (len(s.machines) > 0 || s.knowsLittle()) {
		return 85 * time.Second
	}
	return 25 * time.Second
}

// knowsLittle reports whether a running node cannot claim what others wait for: its host knows a
// job and no World of it, or its data of one job was moved aside for another. mu is held.
func (s *sim) knowsLittle() bool {
	if s.movedAside {
		return true
	}
	for _, h := range s.hosts {
		for _, c := range h.memory {
			if c.World == 0 {
				return true
			}
		}
	}
	return false
}

// stayBehind reports whether the job was made from scratch because the claims came late, and too
// many nodes remain in the lost job, or wait for a node that was in the other job since. An
// operator must resolve that.
func (s *wiped) stayBehind(x *rendezvous.Snapshot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.anew || x.Job == nil {
		return s.movedAside && len(x.Claims) > 0
	}
	there := 0
	for _, a := range s.agents {
		if !a.isDead() && a.host.salvaged[a.node] == x.Job.UID {
			there++
		}
	}
	return there < x.Job.Limits.Min
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
