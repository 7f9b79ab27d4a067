package simulation

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/machines"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/store"
)

// TestDrains drains nodes of a job one after the other, alone or with their machine, and admits
// them again, while other nodes are killed and come back. No world has a drained node, nothing but
// kills costs progress, and a node that is admitted takes part again.
func TestDrains(t *testing.T) { eachSeed(t, 40, drains) }

func drains(t *testing.T, seed uint64) *sim {
	s := newFaulty(t, seed, someFaults())
	nodes := 3 + s.r.IntN(2)
	s.layout, s.often, s.clocks = layoutMarked, false, false
	s.names = letters(nodes)
	s.job.Limits = rendezvous.Limits{Min: 2, Max: nodes}
	s.job.Base.Nodes = nodes
	for _, name := range s.names {
		s.up(name)
	}
	s.until("all train", time.Minute, s.running(0, nodes))
	for range 1 + s.r.IntN(3) {
		s.drainOne(nodes)
	}
	s.goesOn()
	for _, c := range s.etcd.History(0) {
		for _, change := range c.Events {
			if change.Deleted {
				continue
			}
			for _, e := range history.Of(s.job.Name, []store.Entry{change.Entry}) {
				if e.Kind == history.Distrusted || e.Kind == history.WorkerFailed {
					s.wrongf("although nodes were drained and killed alone: %s", e.Text)
				}
			}
		}
	}
	s.close()
	return s.sim
}

// drainOne drains a node, has another one die in half of the cases, and admits the node.
func (s *faulty) drainOne(nodes int) {
	s.t.Helper()
	name := s.names[s.r.IntN(nodes)]
	machine := s.r.IntN(2) == 0
	s.mu.Lock()
	s.tracef("%s is drained, machine: %v", name, machine)
	s.mu.Unlock()
	s.asks(name, func(w *rendezvous.Wish) { w.Drain = append(slices.Clone(w.Drain), name) })
	of := machines.Machine{ID: "m-" + name, Hostname: name}
	if machine {
		if err := machines.Drain(s.t.Context(), s.etcd.Client("drain"), of, time.Now()); err != nil {
			s.t.Fatal(err)
		}
	}
	s.until(fmt.Sprintf("the others train without %s", name), 25*time.Second, s.without(name, nodes-1))
	if nodes > 3 && s.r.IntN(2) == 0 {
		other := s.names[(slices.Index(s.names, name)+1)%nodes]
		s.at[other].kill()
		s.until(fmt.Sprintf("the others train without %s and %s", name, other), 25*time.Second,
			s.without(name, nodes-2))
		s.up(other)
		// one that was lost twice in a minute stays out for half a minute, then for twice that
		s.until(other+" is back", 90*time.Second, s.without(name, nodes-1))
	}
	if machine && s.r.IntN(2) == 0 { // a new agent of the machine is kept out, too
		s.at[name].kill()
		time.Sleep(time.Duration(s.r.IntN(5000)) * time.Millisecond)
		s.up(name)
		time.Sleep(5 * time.Second)
		s.until(name+" stays out", time.Second, s.without(name, nodes-1))
	}
	if err := machines.Clear(s.t.Context(), s.etcd.Client("admit"), of.ID); err != nil {
		s.t.Fatal(err)
	}
	for {
		snap := s.snapshot()
		err := txn.Requests{Store: s.etcd.Client("admit"), Job: s.job.Name}.Admit(s.t.Context(), &snap, name)
		if err == nil {
			break
		}
		if !store.Moved(err) {
			s.t.Fatal(err)
		}
	}
	s.until(name+" takes part again", 30*time.Second, s.running(0, nodes))
}

// asks changes the wish as a command does.
func (s *faulty) asks(by string, change func(*rendezvous.Wish)) {
	s.t.Helper()
	for {
		snap := s.snapshot()
		w := snap.Wish
		w.By = by
		change(&w)
		_, err := txn.Requests{Store: s.etcd.Client(by), Job: s.job.Name}.SetWish(s.t.Context(), &snap, w)
		if err == nil {
			return
		}
		if !store.Moved(err) {
			s.t.Fatal(err)
		}
	}
}

// without reports whether so many nodes train, and a drained one is not among them.
func (s *faulty) without(name string, n int) func(rendezvous.Snapshot) bool {
	runs := s.running(0, n)
	return func(x rendezvous.Snapshot) bool {
		return runs(x) && !slices.ContainsFunc(x.World.Members,
			func(m membership.Ref) bool { return m.Node == name })
	}
}
