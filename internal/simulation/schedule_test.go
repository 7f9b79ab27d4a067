package simulation

import (
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// TestSchedules runs random schedules of joins, crashes, freezes, signals, scaling, failing
// workers, machines that get another address and late or lost answers against the real agent code,
// on hosts whose wall clocks are hours apart. After each, G1, G4 and G8 are checked on all that
// happened, and G6: when the faults end and enough nodes are up, a world runs. A node in quarantine
// is not up before its time is over. COUNT sets how many; SEED runs one and prints its story.
func TestSchedules(t *testing.T) { schedules(t, 150, func(*simGroup) {}) }

// TestSchedulesOfWorkersThatStay is TestSchedules with workers that can stay in their process for
// the next World. Some leave their generation when asked to, some do not answer, some end while
// they wait, and some report a state that they do not have. A worker that waits takes part in no
// collective. All other checks are the same.
func TestSchedulesOfWorkersThatStay(t *testing.T) {
	kept, first := schedules(t, 60, func(g *simGroup) {
		g.stay = []stayKind{stayNot, stayWell, stayWell, stayWell, stayWell, staySilent, stayLiar,
			stayBroken}[g.a.s.rng.IntN(8)]
	})
	if kept == 0 {
		t.Error("no worker went on in another generation")
	}
	if first == 0 {
		t.Error("no worker waited for its first generation")
	}
}

// schedules runs most stories, or those that the environment asks for; worker prepares each group
// of workers. It returns how often workers went on in another generation, and how often in their
// first one.
func schedules(t *testing.T, most uint64, worker func(*simGroup)) (kept, first int) {
	eachSeed(t, most, func(t *testing.T, seed uint64) *sim {
		s := schedule(t, seed, worker)
		kept, first = kept+s.kept, first+s.first
		return s
	})
	one := len(os.Getenv("SEED")) // one story proves nothing about these counts
	return max(kept, one), max(first, one)
}

func schedule(t *testing.T, seed uint64, worker func(*simGroup)) *sim {
	r := rand.New(rand.NewPCG(seed, 7))
	np := []string{"2", "3", "2:3", "1:3", "4"}[r.IntN(5)]
	s := newSim(t, np, seed)
	s.ahead = map[string]time.Duration{"b": time.Hour, "c": -time.Hour, "d": 24 * time.Hour}
	failing := r.IntN(3) == 0
	s.program = func(g *simGroup) {
		worker(g)
		if failing && s.rng.IntN(6) == 0 {
			code := []int{1, 3, 101}[s.rng.IntN(3)]
			g.later(time.Duration(s.rng.IntN(3000))*time.Millisecond, &message.WorkerExit{Code: code})
		}
	}
	names := []string{"a", "b", "c", "d", "e"}
	at := map[string]*simAgent{}
	up := func(name string) {
		if a := at[name]; a == nil || a.isDead() {
			at[name] = s.start(name)
		}
		if r.IntN(3) == 0 {
			at[name].harmRequests(true)
		}
	}
	for _, n := range names[:2+r.IntN(3)] {
		up(n)
	}
	for range 4 + r.IntN(10) {
		time.Sleep(time.Duration(r.IntN(4000)) * time.Millisecond)
		name := names[r.IntN(len(names))]
		a := at[name]
		switch k := r.IntN(12); {
		case a == nil || a.isDead():
			up(name)
		case k < 3:
			a.kill()
		case k < 5:
			a.freeze()
			time.Sleep(time.Duration(r.IntN(8000)) * time.Millisecond)
			a.thaw()
		case k < 6:
			a.signals <- syscall.SIGTERM
			a.leaves = true
			if r.IntN(3) == 0 {
				time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
				a.signals <- syscall.SIGTERM
			}
		case k < 8:
			s.scale(1 + r.IntN(4))
		case k < 9:
			s.mu.Lock()
			s.tracef("%s is cut from etcd", name)
			s.mu.Unlock()
			a.client.Cut(true)
			time.Sleep(time.Duration(r.IntN(6000)) * time.Millisecond)
			a.client.Cut(false)
		case k < 10:
			s.mu.Lock()
			s.tracef("etcd freezes")
			s.mu.Unlock()
			s.etcd.Freeze()
			time.Sleep(time.Duration(r.IntN(6000)) * time.Millisecond)
			s.etcd.Thaw()
		default:
			s.mu.Lock()
			s.tracef("%s is cut from its peers", name)
			a.cut = true
			if k == 11 {
				s.tracef("%s is cut from etcd too, and gets another address", name)
				s.empty[a.address] = true
				a.address += "+"
				a.client.Cut(true)
			}
			s.mu.Unlock()
			time.Sleep(time.Duration(r.IntN(5000)) * time.Millisecond)
			s.mu.Lock()
			a.cut = false
			s.mu.Unlock()
			a.client.Cut(false)
		}
	}
	// Faults end, and enough nodes start. Then a World runs, or the attempt has ended.
	s.mu.Lock()
	s.tracef("faults end")
	s.program = worker
	s.mu.Unlock()
	leavers := 0
	for _, n := range names {
		a := at[n]
		if a == nil || a.isDead() {
			at[n] = s.start(n)
			continue
		}
		a.harmRequests(false)
		if a.leaves {
			leavers++
		}
		if leavers > 1 && a.leaves { // np is at most 4: one of the five nodes may go
			<-a.done
			at[n] = s.start(n)
		}
	}
	s.untilAfter(rulesWait(), "a world runs again (G6)", 25*time.Second, func(x rendezvous.Snapshot) bool {
		w := x.World
		if w == nil || w.Attempt != x.Job.Attempt {
			return false
		}
		v := plan.StoreView(&x, time.Now())
		settled := !plan.WishPending(&x, v) && !plan.Grows(&x, v)
		return w.Phase.Ended() || w.Phase == rendezvous.Running && settled && s.running(0, w.Count)(x)
	})
	s.until("every suspicion is taken back", 30*time.Second, func(x rendezvous.Snapshot) bool {
		return len(x.Suspects) == 0 || x.World.Phase.Ended()
	})
	s.finish()
	return s
}

// rulesWait returns a function that reports whether the job waits as its rules say: for the end of
// a pause between restarts, or because it lacks nodes for quarantines that are not over. A node whose
// workers failed is kept out, and too few others are registered. Each planner counts the time from
// when it first sees the record. The function sees it then or earlier.
func rulesWait() func(rendezvous.Snapshot) bool {
	type quarantine struct {
		node  string
		since schema.Generation
	}
	seen, held := map[quarantine]time.Time{}, map[schema.Generation]time.Time{}
	return func(x rendezvous.Snapshot) bool {
		if x.World == nil {
			return false
		}
		if h := x.World.Hold; h != nil && h.Backoff > 0 {
			g := x.World.Generation
			if held[g].IsZero() {
				held[g] = time.Now()
			}
			if time.Since(held[g]) < time.Duration(h.Backoff) {
				return true
			}
		}
		var ends []time.Time
		for _, r := range x.World.Ledger.Nodes {
			if !r.Failing || r.Quarantine == 0 || x.Node(r.Node) == nil {
				continue
			}
			q := quarantine{r.Node, r.Since}
			if _, known := seen[q]; !known {
				seen[q] = time.Now()
			}
			ends = append(ends, seen[q].Add(time.Duration(r.Quarantine)))
		}
		slices.SortFunc(ends, time.Time.Compare)
		_, _, missing := plan.Shortage(&x, plan.StoreView(&x, time.Now()))
		return missing > 0 && missing <= len(ends) && time.Now().Before(ends[missing-1])
	}
}

// scale asks for n nodes as the CLI does.
func (s *sim) scale(n int) {
	snap := s.snapshot()
	if snap.Job == nil || snap.World != nil && snap.World.Phase.Ended() {
		return
	}
	if !snap.Job.Limits.Exact {
		n = max(snap.Job.Limits.Min, min(n, snap.Job.Limits.Max))
	}
	s.mu.Lock()
	s.tracef("scale to %d", n)
	if s.least == 0 || n < s.least {
		s.least = n
	}
	s.mu.Unlock()
	w := snap.Wish
	w.NP, w.By = n, "scale"
	req := txn.Requests{Store: s.etcd.Client("scale"), Job: s.job.Name}
	if _, err := req.SetWish(s.t.Context(), &snap, w); err != nil && !store.Moved(err) {
		s.t.Log(err)
	}
}
