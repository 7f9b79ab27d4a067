package runtime

import (
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/reclaim"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// lostMachine is a machine that never returns, as a node of a generation.
type lostMachine struct {
	ref        membership.Ref
	generation schema.Generation
}

// loseDisk ends a machine for good; another one of that name has an empty disk. No second machine
// is lost before the newest checkpoint has its copies again and the World goes on without the
// first. If the store were lost too, the others would rightly wait for one of the two.
func (s *faulty) loseDisk(a *simAgent) {
	snap := s.snapshot()
	s.mu.Lock()
	s.machines = slices.DeleteFunc(s.machines,
		func(m lostMachine) bool { return !s.behind && m.forgotten(&snap) })
	may := len(s.lost) == 0 && len(s.machines) == 0 && !s.behind && s.protected(a.host)
	ref := membership.Ref{Node: a.node, Incarnation: a.hello.Incarnation}
	s.mu.Unlock()
	if !may {
		return
	}
	a.kill()
	s.note("%s loses its disk", a.name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost[a.name], s.safe = true, checkpoint.Head{} // one of its two copies may have been there
	s.machines = append(s.machines, lostMachine{ref: ref, generation: snap.Fence})
	s.hosts[a.name] = newHost(a.name + "-new")
}

// remakeAsOperator does what an operator does with `elastic ckpt restore` after the nodes have waited for a
// machine that is lost with its disk: the job is made again from their newest checkpoint.
func (s *faulty) remakeAsOperator(x *rendezvous.Snapshot, waited time.Duration) {
	s.mu.Lock()
	lost := len(s.machines) > 0
	s.mu.Unlock()
	if !lost || len(x.Claims) == 0 || waited < 75*time.Second {
		return
	}
	choices := reclaim.Choices(x.Claims)
	if len(choices) == 0 {
		return
	}
	m := reclaim.Without(x.Claims, choices[len(choices)-1])
	if m == nil {
		return
	}
	v := reclaim.Decide(x.Claims, m.Job.UID, reclaim.ForEnough)
	if v.Remake != nil {
		return
	}
	s.note("the operator goes on without %v", v.Missing)
	r := txn.Requests{Store: s.etcd.Client("operator"), Job: s.job.Name}
	_, err := r.Remake(s.t.Context(), txn.Remaking{Me: x.Claims[0], Job: m, Own: s.job, Seen: x})
	if err != nil && !store.Moved(err) {
		s.wrongf("the operator cannot make the job again: %v", err)
	}
}

// forgotten reports whether no node would wait for m if the store were lost: it is no member of the
// World and no holder of the newest commit, and it was reported lost or the World is newer.
func (m lostMachine) forgotten(s *rendezvous.Snapshot) bool {
	n, held := s.Node(m.ref.Node), func(r membership.Ref) bool { return r.Node == m.ref.Node }
	return s.World != nil && s.World.Rank(m.ref) < 0 && (n == nil || !n.Same(m.ref)) &&
		!slices.ContainsFunc(s.Head.Holders, held) &&
		(s.Missed[m.ref.Incarnation] || s.World.Generation > m.generation)
}
