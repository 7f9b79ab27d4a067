package simulation

import (
	"maps"
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/problem"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
)

// loseDisk ends a machine for good; another one of that name has an empty disk. No second machine
// is lost before the newest checkpoint has its copies again.
func (s *faulty) loseDisk(a *simAgent) {
	s.mu.Lock()
	may := len(s.lost) == 0 && !s.behind && s.protected(a.host)
	s.mu.Unlock()
	if !may {
		return
	}
	a.kill()
	s.note("%s loses its disk", a.name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost[a.name], s.safe = true, checkpoint.Head{} // one of its two copies may have been there
	s.hosts[a.name] = newHost(a.name + "-new")
}

// refusedFor is how long agents are refused before the operator decides.
const refusedFor = 12 * time.Second

// tender starts agents again that were refused, as a scheduler does. When no world begins without them, the
// operator ends the other agents, and lets the job go on from the newest checkpoint that its nodes have. So
// the operator does when agents live in another job than the server shows.
type tender struct {
	again map[string]time.Time // when an agent is started again
	// since when some are refused, or in another job than the server shows; and the last time
	since, last time.Time
	stops       bool // the operator waits until no agent is registered
}

// tend looks after refused agents.
func (s *sim) tend(t *tender, at map[string]*simAgent, up func(name string), x *rendezvous.Snapshot) {
	if t.again == nil {
		t.again = map[string]time.Time{}
	}
	var refused []string
	stranded := false
	s.mu.Lock()
	for name, a := range at {
		switch {
		case a == nil:
		case a.isDead() && (a.refusedToJoin() || t.stops):
			refused = append(refused, name)
		case !a.isDead() && x.Job != nil && a.opened && a.host.uid != x.Job.UID:
			stranded = true // the server shows another job, and says so
		}
	}
	s.mu.Unlock()
	if len(refused) == 0 && !stranded {
		return
	}
	slices.Sort(refused)
	now := time.Now()
	if now.Sub(t.last) > 5*time.Second {
		t.since = now
	}
	t.last = now
	switch {
	case now.Sub(t.since) <= refusedFor && !t.stops:
	case !t.stops:
		t.stops = true
		for _, name := range slices.Sorted(maps.Keys(at)) {
			if at[name] != nil {
				at[name].kill()
			}
		}
		return // until the store shows that they are gone
	default:
		r := txn.Requests{Store: s.etcd.Client("operator"), Job: s.job.Name}
		if len(x.Nodes) > 0 || r.AllowResume(s.t.Context(), x, "") != nil {
			return
		}
		s.mu.Lock()
		s.tracef("the operator recovers the job")
		s.mu.Unlock()
		t.stops, t.since, t.again = false, now, map[string]time.Time{}
	}
	for _, name := range refused {
		if next := t.again[name]; now.After(next) {
			t.again[name] = now.Add(2 * time.Second)
			up(name)
		}
	}
}

// refusedToJoin reports whether the agent has ended because its disk has more than the server shows, or
// because its job was removed by a node whose disk has more. mu is held.
func (a *simAgent) refusedToJoin() bool {
	return a.result.Status == 94 || problem.Is(a.result.Err, problem.JobNone)
}
