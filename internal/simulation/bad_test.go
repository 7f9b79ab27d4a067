package simulation

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/machines"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// badKind is what is wrong with a bad node.
type badKind struct {
	name   string
	after  func(r *rand.Rand) time.Duration // when its workers fail; nil: they do not
	signal string                           // that ends them; "": they exit with 1
	// how often the others lose a generation before the node is left out, and how long it is out first
	tries int
	out   time.Duration
}

func badKinds() []badKind {
	between := func(lo, hi time.Duration) func(*rand.Rand) time.Duration {
		return func(r *rand.Rand) time.Duration { return lo + time.Duration(r.Int64N(int64(hi-lo))) }
	}
	return []badKind{
		{"fails at once", between(0, 10*time.Millisecond), "", 2, time.Minute},
		{"fails before its first step", between(10*time.Millisecond, 400*time.Millisecond), "", 2, time.Minute},
		// it uses the restarts up
		{"fails after its first steps", between(4*time.Second, 8*time.Second), "", 4, time.Minute},
		{"is out of memory each minute", between(50*time.Second, time.Minute), "SIGKILL", 4, time.Minute},
		{"falls silent again and again", nil, "", 2, 30 * time.Second},
	}
}

// TestBadNodes plays one bad node among two to four healthy ones, from the first world on or later,
// for up to two and a half minutes. No job ends, no checkpoint is distrusted, the healthy nodes
// lose no more generations than is promised, and train on. The record of the bad machine alone says
// so; if two other jobs left it out within the hour, no world has the node. COUNT and SEED as in
// TestSchedules.
func TestBadNodes(t *testing.T) { eachSeed(t, 24, badNodes) }

func badNodes(t *testing.T, seed uint64) *sim {
	s := newFaulty(t, seed, someFaults())
	healthy := 2 + s.r.IntN(3)
	s.layout, s.often, s.clocks = layoutMarked, false, false
	s.names = append(letters(healthy), "bad")
	s.job.Limits = rendezvous.Limits{Min: 2, Max: 5}
	s.job.Base.Nodes, s.job.Rules.MaxRestarts = 5, 3
	kinds := badKinds()
	kind := kinds[s.r.IntN(len(kinds))]
	late := s.r.IntN(2) == 0
	others := s.r.IntN(4)
	s.note("one of %d nodes %s; late: %v; %d jobs left it out before", healthy+1, kind.name, late, others)
	s.leftOut("m-bad", others)
	broken := true // guarded by mu
	s.program = func(g *simGroup) {
		if broken && g.a.name == "bad" && kind.after != nil {
			x := &message.WorkerExit{Code: 1}
			if kind.signal != "" {
				x = &message.WorkerExit{Code: 137, Signal: kind.signal}
			}
			g.later(kind.after(s.rng.of("bad", g.Start.World.Generation)), x)
		}
	}
	for _, name := range s.names {
		if name != "bad" || !late {
			s.up(name)
		}
	}
	if late {
		s.until("a checkpoint is committed", time.Minute,
			func(x rendezvous.Snapshot) bool { return x.Head.Number > 0 })
		s.up("bad")
	}
	lasts := 30*time.Second + time.Duration(s.r.IntN(120))*time.Second
	s.plague(kind, lasts)
	s.mu.Lock()
	broken = false
	s.tracef("the node is repaired")
	s.mu.Unlock()
	s.until("the healthy nodes train", 25*time.Second, func(x rendezvous.Snapshot) bool {
		return x.World != nil && x.World.Count >= healthy && s.running(0, x.World.Count)(x)
	})
	s.goesOn()
	if others >= 2 {
		kind.tries, kind.out = 0, time.Hour
	}
	s.promised(kind, lasts)
	s.recorded(kind, others)
	s.close()
	return s.sim
}

// leftOut writes into the record of a machine that other jobs left it out within the last hour.
func (s *faulty) leftOut(machine string, jobs int) {
	for i := range jobs {
		uid := fmt.Sprint("other", i)
		incident := machines.Incident{Node: "x", Job: schema.Job(uid), UID: schema.UID(uid), Kind: machines.LeftOut,
			Text: "exit code 1", Time: time.Now().Add(-time.Duration(5+s.r.IntN(40)) * time.Minute)}
		err := machines.Note(s.t.Context(), s.etcd.Client("other"),
			machines.Machine{ID: machine, Hostname: "bad"}, []machines.Incident{incident})
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// recorded checks that the bad machine alone has a record, and that it says what the job left out. A
// node that fell silent is left out here: only its registration names its machine, and its lease may
// have run out.
func (s *faulty) recorded(kind badKind, before int) {
	all, err := machines.All(s.t.Context(), s.etcd.Client("reader"))
	if err != nil {
		s.t.Fatal(err)
	}
	left := 0
	for _, r := range all {
		for _, i := range r.Incidents {
			switch {
			case r.ID != "m-bad":
				s.wrongf("the record of %s has: %s %s", r.ID, i.Kind, i.Text)
			case i.Kind == machines.LeftOut && i.UID == s.known.UID:
				left++
			}
		}
	}
	out := false
	for _, n := range s.snapshot().World.Ledger.Nodes {
		out = out || n.Node == "bad" && n.Outs > 0
	}
	if out && left == 0 && kind.after != nil || before >= 2 && left > 0 {
		s.wrongf("the record has %d times that the job left the node out, which %d others did before; "+
			"out: %v", left, before, out)
	}
}

// plague has the bad node be bad for a time.
func (s *faulty) plague(kind badKind, lasts time.Duration) {
	for end := time.Now().Add(lasts); time.Now().Before(end); {
		if kind.after != nil {
			time.Sleep(time.Second)
			continue
		}
		a := s.at["bad"]
		a.freeze()
		time.Sleep(time.Duration(1300+s.r.IntN(4000)) * time.Millisecond)
		a.thaw()
		time.Sleep(time.Duration(300+s.r.IntN(4000)) * time.Millisecond)
		s.up("bad")
	}
}

// promised checks what the healthy nodes lost: as many generations as the node has tries before it is left
// out, and one for each time that it comes back, after a pause that doubles.
func (s *faulty) promised(kind badKind, lasts time.Duration) {
	s.t.Helper()
	most := kind.tries + bits.Len64(uint64(lasts/kind.out))
	lost := 0
	for _, c := range s.etcd.History(0) {
		for _, change := range c.Events {
			if change.Deleted {
				continue
			}
			for _, e := range history.Of(s.job.Name, []store.Entry{change.Entry}) {
				switch e.Kind {
				case history.Distrusted:
					s.wrongf("a checkpoint is distrusted because of one node: %s", e.Text)
				case history.WorkerFailed, history.NodeLost:
					if lost++; e.Node != "bad" {
						s.wrongf("a healthy node is charged: %s", e.Text)
					}
				}
			}
		}
	}
	if lost > most {
		s.wrongf("the healthy nodes lost %d generations in %s, and %d are promised", lost, lasts, most)
	}
}
