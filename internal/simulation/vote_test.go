package simulation

import (
	"fmt"
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// stayers are workers that stay, with their states and the saves of rank 0. They agree on a state
// as the Python helper does.
type stayers struct {
	*faulty
	worlds map[string]*simVote // guarded by sim.mu, and what they hold
	lies   int                 // how many more wrong steps workers may report: each may cost the job a restart
	lied   int                 // wrong steps that were reported
}

// simVote is a meeting of the ranks of one World.
type simVote struct {
	here   map[int]*simGroup // by rank
	said   map[int]int64     // the step of its state, as each reports it; -1: it has none
	met    chan struct{}     // closed when all are there, and agreed
	step   int64             // that all have come to
	before int64             // that some may still be at
}

func newStayers(s *faulty) *stayers {
	v := &stayers{faulty: s, worlds: map[string]*simVote{}, lies: 2}
	s.begins, s.layout, s.often = v.join, layoutMarked, false
	s.job.Rules.MaxRestarts = 1000 // workers that leave and end spend them; the budget has tests of its own
	return v
}

// join makes a worker start in its World, with a new process or with its state. mu is held.
func (v *stayers) join(g *simGroup) {
	if g.stay == stayNot && g.asked == nil {
		g.stay = []stayKind{stayNot, stayWell, stayWell, stayWell, staySilent, stayLiar,
			stayBroken}[v.rng.IntN(7)]
	}
	if g.asked == nil {
		g.asked = make(chan struct{})
	}
	g.left, g.still = make(chan struct{}), make(chan struct{})
	w := g.Start.World
	// after a set-back a number may be used twice
	key := fmt.Sprint(w.UID, " ", w.Generation, " ", w.Members)
	meets := v.worlds[key]
	if meets == nil || meets.here[g.Start.Rank] != nil { // it begins again
		meets = &simVote{here: map[int]*simGroup{}, said: map[int]int64{}, met: make(chan struct{})}
		v.worlds[key] = meets
	}
	said := g.step
	if g.stay == stayLiar && said >= 0 && v.lie() {
		said = max(0, said+int64(v.rng.IntN(21)-10))
	}
	meets.here[g.Start.Rank], meets.said[g.Start.Rank] = g, said
	if len(meets.here) == w.Count {
		v.agree(&w, meets)
	}
	v.workers.Go(func() { v.work(g, meets) })
}

// lie reports whether a worker reports a wrong step now.
func (v *stayers) lie() bool {
	if v.lies == 0 || v.rng.IntN(3) > 0 {
		return false
	}
	v.lies--
	v.lied++
	return true
}

// agree decides from which state the ranks go on when all are there: the newest state, or the
// checkpoint if that is newer. mu is held.
func (v *stayers) agree(w *rendezvous.World, x *simVote) {
	head := int64(0)
	if w.Resume != nil && w.Resume.Step != nil {
		head = *w.Resume.Step
	}
	newest, giver := int64(-1), -1
	brought := head == 0
	for rank := range w.Count {
		if x.said[rank] > newest {
			newest, giver = x.said[rank], rank
		}
		brought = brought || slices.Contains(steps(x.here[rank].a.host.work(v.job.Name)), head)
	}
	x.step = newest
	switch {
	case newest < head && !brought || newest >= head && giver >= 0 && x.here[giver].step != newest:
		v.tracef("generation %d has no state to begin with: said %d, checkpoint %d", w.Generation, newest, head)
		for rank := range w.Count {
			x.here[rank].later(time.Millisecond, &message.WorkerExit{Code: 1})
		}
		return
	case newest < head || giver < 0:
		x.step = head
	}
	if x.step < head {
		v.wrongf("generation %d begins with step %d, and its checkpoint is of step %d", w.Generation, x.step, head)
	}
	v.tracef("generation %d begins with step %d, its checkpoint is of step %d", w.Generation, x.step, head)
	x.before = x.step
	for rank := range w.Count {
		x.here[rank].step = x.step
	}
	close(x.met)
}

// work trains, in one world.
func (v *stayers) work(g *simGroup, x *simVote) {
	defer close(g.still)
	select {
	case <-x.met:
	case <-g.left:
		return
	case <-g.gone:
		return
	case <-g.asked:
		g.later(time.Millisecond, &message.WorkerExit{Ours: true})
		return
	}
	zero := g.Start.Rank == 0
	for {
		select {
		case <-g.gone:
			return
		case <-g.left:
			v.broken(g, x)
			return
		case <-g.asked:
			if zero {
				v.save(g, g.a.host.work(v.job.Name), v.forward(g, x, 1))
			}
			g.later(time.Millisecond, &message.WorkerExit{Ours: true})
			return
		case <-time.After(time.Duration(500+v.rng.of(g.a.name, "work").IntN(2500)) * time.Millisecond):
			if zero {
				v.save(g, g.a.host.work(v.job.Name), v.forward(g, x, 1+int64(v.rng.of(g.a.name, "step").IntN(5))))
			}
		}
	}
}

// forward makes rank 0 finish steps, and returns the last one. Other ranks may still be in it.
func (v *stayers) forward(g *simGroup, x *simVote, by int64) int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	x.step += by
	x.before, g.step = x.step-1, x.step
	return x.step
}

// broken sets the state of a worker that has left: of the last step of rank 0, of the one before,
// or none if it was interrupted before commit.
func (v *stayers) broken(g *simGroup, x *simVote) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if g.Start.Rank > 0 {
		g.step = []int64{x.step, x.step, x.before, -1}[v.rng.IntN(4)]
	}
}
