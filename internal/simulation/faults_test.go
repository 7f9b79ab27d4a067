package simulation

import (
	"errors"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// mix is the set of layouts and faults of stories.
type mix struct {
	layouts []layout // each as often as it is chosen
	faults  []fault
	rare    bool // saves that are never whole, and long faults of one node of two, are more often
}

// fault is a kind of fault.
type fault struct {
	weight int  // how often it is chosen, of the sum of all
	lives  bool // it needs a living agent; a dead one is started instead
	begin  func(s *faulty, a *simAgent, span time.Duration)
}

// someFaults has faults that come one at a time.
func someFaults() mix {
	return mix{layouts: layouts, faults: slices.Concat(storeFaults(), nodeFaults(),
		[]fault{{2, true, (*faulty).diesProposing}}, workerFaults())}
}

// everyFault also has faults that come in a row, and more layouts.
func everyFault() mix {
	return mix{layouts: slices.Concat(layouts, []layout{layoutMarkedBeside, layoutMarkedBeside}), rare: true,
		faults: slices.Concat(storeFaults(), nodeFaults(),
			[]fault{{2, true, (*faulty).diesUnheard}, {2, true, (*faulty).comesAlone},
				{2, true, (*faulty).cutPair}},
			workerFaults())}
}

// fault makes one fault happen, to a node or to the store.
func (s *faulty) fault(name string) {
	a := s.at[name]
	span := time.Duration(s.r.IntN(8000)) * time.Millisecond
	alive := a != nil && !a.isDead()
	seldom := 8
	if s.mix.rare {
		seldom = 5
	}
	if len(s.names) == 2 && alive && s.r.IntN(seldom) == 0 {
		s.takesNoCopies(a, 20*time.Second+span)
		s.disturbed(name)
		return
	}
	switch f := s.mix.choose(s.r); {
	case f.lives && !alive:
		s.up(name)
	default:
		f.begin(s, a, span)
	}
	s.disturbed(name)
}

// choose draws one of the faults.
func (m mix) choose(r *rand.Rand) fault {
	sum := 0
	for _, f := range m.faults {
		sum += f.weight
	}
	k := r.IntN(sum)
	for _, f := range m.faults {
		if k -= f.weight; k < 0 {
			return f
		}
	}
	panic("no weight")
}

// storeFaults befall the store.
func storeFaults() []fault {
	return []fault{
		{2, false, func(s *faulty, _ *simAgent, _ time.Duration) {
			s.lose("set back", func() { s.restore(s.old, s.r.IntN(2) == 0) })
			s.maybeKillAll()
		}},
		{2, false, func(s *faulty, _ *simAgent, _ time.Duration) {
			s.lose("wiped", s.etcd.Wipe)
			s.old = s.etcd.Backup()
			s.maybeKillAll()
		}},
		{2, false, func(s *faulty, _ *simAgent, _ time.Duration) { s.old = s.etcd.Backup() }},
		{1, false, func(s *faulty, _ *simAgent, span time.Duration) {
			s.note("the store stands still")
			s.etcd.Freeze()
			time.Sleep(span)
			s.etcd.Thaw()
			s.disturbed(s.names...)
		}},
		{1, false, func(s *faulty, _ *simAgent, span time.Duration) {
			s.note("the store is full")
			s.etcd.Full(true)
			time.Sleep(span)
			s.etcd.Full(false)
		}},
		{1, false, func(s *faulty, _ *simAgent, _ time.Duration) {
			s.note("the store is compacted")
			s.etcd.Compact(s.etcd.Rev())
			s.gaps = true
		}},
	}
}

// nodeFaults befall an agent, its machine or its ways to others.
func nodeFaults() []fault {
	return slices.Insert(nodeFaultsButPower(), 1, fault{1, true, (*faulty).losePower})
}

// nodeFaultsButPower are nodeFaults of which a save that workers wrote survives each, synced or not.
func nodeFaultsButPower() []fault {
	return []fault{
		{2, true, func(_ *faulty, a *simAgent, _ time.Duration) { a.kill() }},
		{2, true, func(_ *faulty, a *simAgent, span time.Duration) {
			a.freeze()
			time.Sleep(span)
			a.thaw()
		}},
		{1, true, (*faulty).cutFromStore},
		{1, true, func(s *faulty, a *simAgent, span time.Duration) {
			s.note("%s is cut from its peers", a.name)
			s.cutOff(a, true)
			time.Sleep(span)
			s.cutOff(a, false)
		}},
		{1, true, func(_ *faulty, a *simAgent, span time.Duration) {
			a.client.Deaf(true)
			time.Sleep(span)
			a.client.Deaf(false)
		}},
		{1, true, (*faulty).diskFails},
		{1, true, func(s *faulty, a *simAgent, _ time.Duration) { s.loseDisk(a) }},
		{1, true, func(_ *faulty, a *simAgent, _ time.Duration) {
			a.signals <- syscall.SIGTERM
			a.leaves = true
		}},
		{1, true, func(_ *faulty, a *simAgent, _ time.Duration) { a.harmRequests(true) }},
		{1, true, func(s *faulty, a *simAgent, _ time.Duration) { s.setClock(a) }},
		{2, true, func(s *faulty, a *simAgent, span time.Duration) {
			way := []oneWay{wayOut, wayBack}[s.r.IntN(2)]
			s.note("one way between %s and the store is cut: %d", a.name, way)
			s.cutOneWay(a, way)
			time.Sleep(span)
			s.cutOneWay(a, noWay)
		}},
	}
}

// workerFaults befall the workers of a node.
func workerFaults() []fault {
	return []fault{
		{1, true, func(s *faulty, a *simAgent, _ time.Duration) {
			s.note("the workers of %s hang", a.name)
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, g := range a.groups {
				g.hung = true
			}
		}},
		{1, true, func(s *faulty, a *simAgent, _ time.Duration) {
			s.note("the workers of %s end", a.name)
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, g := range a.groups {
				g.fail()
			}
		}},
	}
}

// losePower ends an agent with its machine, whose disk then has what was synced, and all newer names or none.
func (s *faulty) losePower(a *simAgent, _ time.Duration) {
	a.kill()
	s.note("%s had no power", a.name)
	a.host.boots++
	newest := s.r.IntN(2) == 0
	a.host.state.Crash(func() bool { return newest })
}

// setClock sets the wall clock of a host by up to an hour, in a story in which that happens.
func (s *faulty) setClock(a *simAgent) {
	if a.host.jumped == nil {
		return
	}
	s.note("the clock of %s is set", a.name)
	a.host.jumped.Add(int64(time.Duration(s.r.IntN(7200)-3600) * time.Second))
}

// takesNoCopies cuts a from the store for so long that the other one of two nodes makes many
// commits without its registration. If the disk of a fails too, those commits have one copy.
func (s *faulty) takesNoCopies(a *simAgent, span time.Duration) {
	if !s.mix.rare || s.r.IntN(2) == 0 {
		s.cutFromStore(a, span)
		return
	}
	s.note("%s is cut from the store", a.name)
	s.keepStoreFrom(a, true)
	s.diskFails(a, span)
	s.keepStoreFrom(a, false)
}

// cutFromStore cuts only the store from a.
func (s *faulty) cutFromStore(a *simAgent, span time.Duration) {
	s.note("%s is cut from the store", a.name)
	s.keepStoreFrom(a, true)
	time.Sleep(span)
	s.hasCopies(a, span)
	s.keepStoreFrom(a, false)
}

// keepStoreFrom cuts a from the store, or connects it again.
func (s *faulty) keepStoreFrom(a *simAgent, on bool) {
	s.mu.Lock()
	a.storeless = on
	s.mu.Unlock()
	a.client.Cut(on)
}

// cutOneWay cuts one way between a and the store, or opens both.
func (s *faulty) cutOneWay(a *simAgent, way oneWay) {
	s.mu.Lock()
	a.way = way
	s.mu.Unlock()
	a.client.Deaf(way == wayBack)
}

// cutPair makes dials between a and another node fail, one way or both.
func (s *faulty) cutPair(a *simAgent, span time.Duration) {
	other := s.names[s.r.IntN(len(s.names))]
	from, to := a.name, other
	kind := s.r.IntN(3)
	if kind == 1 {
		from, to = to, from
	}
	s.note("%s does not reach %s (both ways: %v)", from, to, kind == 2)
	s.mu.Lock()
	s.vain = func(x, y string) bool { return x == from && y == to || kind == 2 && x == to && y == from }
	s.mu.Unlock()
	time.Sleep(span)
	s.mu.Lock()
	s.vain = nil
	s.mu.Unlock()
	s.disturbed(other)
}

// cutOff cuts a from its peers, or connects it again.
func (s *faulty) cutOff(a *simAgent, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.cut = on
}

var errDisk = errors.New("input/output error")

// diskFails makes every write to the disk of a fail for a while, or find no space.
func (s *faulty) diskFails(a *simAgent, span time.Duration) {
	s.note("the disk of %s takes nothing", a.name)
	err := errDisk
	if s.r.IntN(2) == 0 {
		err = syscall.ENOSPC
	}
	a.host.fails(err)
	time.Sleep(span)
	a.host.fails(nil)
}

// maybeKillAll ends all agents with the store, sometimes for longer than every limit.
func (s *faulty) maybeKillAll() {
	if s.r.IntN(2) > 0 {
		return
	}
	s.killNodes()
	switch s.r.IntN(3) {
	case 0:
		time.Sleep(2 * time.Minute)
	case 1: // one of them comes alone, and waits for longer than the limit
		s.up(s.poorest())
		time.Sleep(70 * time.Second)
	}
}

// poorest returns a node that was in the job and lacks the newest checkpoint, else any node.
func (s *faulty) poorest() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := s.r.IntN(len(s.names))
	for i := range s.names {
		name := s.names[(from+i)%len(s.names)]
		if h := s.hosts[name]; h != nil && s.head.Number > 0 && !s.has(h) {
			return name
		}
	}
	return s.names[from]
}
