package simulation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// entries returns what is below prefix now, despite any fault.
func (s *sim) entries(prefix string) []store.Entry { return s.etcd.Read(store.Below(prefix)).Entries }

// lastRead is the newest snapshot. It is used again until the store changes.
type lastRead struct {
	mu   sync.Mutex
	snap *rendezvous.Snapshot
}

// decided are the records of a job on which agents base decisions. Of the events these are the ones
// about lost nodes.
func decided(j schema.Job) []store.Range {
	return []store.Range{{From: j.Prefix(), End: j.Events()}, store.Below(j.Event(rendezvous.MissedEvent)),
		{From: store.End(j.Events()), End: store.End(j.Prefix())}}
}

// snapshot reads the job, despite any fault.
func (s *sim) snapshot() rendezvous.Snapshot {
	s.read.mu.Lock()
	defer s.read.mu.Unlock()
	if x := s.read.snap; x != nil && s.etcd.Is(x.Cluster, x.Rev) {
		return *x
	}
	snap, err := rendezvous.Decode(s.job.Name, s.etcd.Read(s.all...))
	if err != nil {
		s.t.Fatalf("read: %v\n%s", err, s.story())
	}
	s.read.snap = &snap
	return snap
}

// follow calls see whenever a record of the job changes for which matters is true, until ctx ends.
func (s *sim) follow(ctx context.Context, matters func(store.Event) bool, see func()) {
	cl, prefix := s.etcd.Client("observer"), s.job.Name.Prefix()
	for ctx.Err() == nil {
		again, cancel := context.WithCancel(ctx)
		s.mu.Lock()
		s.again = cancel
		s.mu.Unlock()
		if r, err := cl.Get(again, s.job.Name.Job(), ""); err == nil {
			see()
			for c := range cl.Watch(again, prefix, store.End(prefix), r.Rev+1) {
				if slices.ContainsFunc(c.Events, matters) {
					see()
				}
			}
		}
		cancel()
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// matters reports whether e changes what a job has reached.
func (s *sim) matters(e store.Event) bool {
	return e.Key == s.job.Name.Job() || e.Key == s.job.Name.Fence() || e.Key == s.job.Name.Head()
}

// restore replaces the data of the store with an older copy, or the store with one that has the
// copy.
func (s *sim) restore(b memory.Backup, same bool) {
	if same {
		s.etcd.SetBack(b)
	} else {
		s.etcd.Restore(b)
	}
	s.read.mu.Lock()
	s.read.snap = nil // its revision comes again
	s.read.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.again != nil {
		s.again()
	}
}

// until waits for a state of the job.
func (s *sim) until(what string, limit time.Duration, ok func(rendezvous.Snapshot) bool) {
	s.t.Helper()
	s.untilAfter(func(rendezvous.Snapshot) bool { return false }, what, limit, ok)
}

// untilAfter is until with a limit that begins when waits is no longer true.
func (s *sim) untilAfter(
	waits func(rendezvous.Snapshot) bool, what string, limit time.Duration, ok func(rendezvous.Snapshot) bool,
) {
	s.t.Helper()
	for end := time.Now().Add(limit); ; {
		x := s.snapshot()
		if ok(x) {
			return
		}
		if waits(x) {
			end = time.Now().Add(limit)
		}
		if time.Now().After(end) {
			s.t.Errorf("not within %s: %s\n%s", limit, what, s.story())
			s.finish()
			s.t.FailNow()
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// running reports whether generation g, or any if it is 0, runs with n nodes and all its workers.
func (s *sim) running(g schema.Generation, n int) func(rendezvous.Snapshot) bool {
	return func(snap rendezvous.Snapshot) bool {
		w := snap.World
		if w == nil || w.Phase != rendezvous.Running || w.Count != n || g != 0 && w.Generation != g {
			return false
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		live := 0
		for _, a := range s.agents {
			for _, x := range a.groups {
				if !x.ended && !x.paused && x.Start.World.Generation == w.Generation {
					live++
				}
			}
		}
		return live == n
	}
}

// story returns the trace of the simulation, in the order of time.
func (s *sim) story() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := slices.Clone(s.trace)
	slices.SortStableFunc(lines, func(a, b traceLine) int {
		return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.text, b.text))
	})
	var text strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&text, "%12.6f %s\n", l.at.Seconds(), l.text)
	}
	return text.String()
}

// finish kills the remaining agents and checks the history: G1, that each reported loss is counted,
// and that no fault was recorded.
func (s *sim) finish() {
	s.t.Helper()
	for _, a := range s.agents {
		a.kill()
		<-a.done
	}
	worlds := map[schema.Generation]rendezvous.World{}
	last := s.base
	for _, c := range s.etcd.History(0) {
		lost, before, after := 0, last, (*rendezvous.World)(nil)
		for _, e := range c.Events {
			if !e.Deleted && strings.HasPrefix(e.Key, s.job.Name.Events()) &&
				!strings.HasPrefix(e.Key, s.job.Name.Event("missed-")) {
				lost += s.lost(&e.Entry)
			}
			if e.Deleted && e.Key == s.job.Name.Job() { // removed: what comes after it is another job
				worlds, last = map[schema.Generation]rendezvous.World{}, rendezvous.World{}
			}
			if e.Deleted || e.Key != s.job.Name.World() {
				continue
			}
			w, err := rendezvous.DecodeWorld(&e.Entry)
			if err != nil {
				s.t.Fatal(err)
			}
			if w.UID != last.UID { // made again from memory, with its counts, or another job
				worlds, before.Ledger.Lost = map[schema.Generation]rendezvous.World{}, w.Ledger.Lost-lost
				before.Attempt = w.Attempt
				last.Generation, last.Phase = 0, ""
			}
			if w.Generation < last.Generation {
				s.wrongf("G1: generation %d after %d", w.Generation, last.Generation)
			}
			if old, ok := worlds[w.Generation]; ok && !slices.Equal(old.Members, w.Members) {
				s.wrongf("G1: two worlds of generation %d", w.Generation)
			}
			if last.Phase == rendezvous.Done {
				s.wrongf("G8: the done job turned %s", w.Phase)
			}
			if lo, hi := s.sizes(w); w.Count < lo || w.Count > hi {
				s.wrongf("G1: generation %d has %d nodes, and may have %d to %d", w.Generation, w.Count, lo, hi)
			}
			seen := map[string]bool{}
			for _, m := range w.Members {
				if seen[m.Node] {
					s.wrongf("G1: %s twice in generation %d", m.Node, w.Generation)
				}
				seen[m.Node] = true
			}
			worlds[w.Generation], last, after = *w, *w, w
		}
		if after == nil {
			after = &before
		}
		if after.Attempt != before.Attempt {
			before.Ledger.Lost = 0
		}
		if after.Ledger.Lost != before.Ledger.Lost+lost && !s.gaps {
			s.wrongf("generation %d: %d were lost, %d more are reported, and the ledger has %d",
				after.Generation, before.Ledger.Lost, lost, after.Ledger.Lost)
		}
	}
	if len(s.wrong) > 0 {
		s.t.Errorf("%s\n%s", strings.Join(s.wrong, "\n"), s.story())
	}
}

// sizes are the least and the largest number of nodes that w may have.
func (s *sim) sizes(w *rendezvous.World) (lo, hi int) {
	l := s.job.Limits
	switch {
	case !l.Exact:
		return l.Min, l.Max
	case s.least == 0:
		return w.NP, w.NP
	}
	return min(l.Min, s.least), max(l.Max, w.NP)
}

// lost is how many node_lost events lie in e.
func (s *sim) lost(e *store.Entry) (n int) {
	events, err := history.Decode(e)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range events {
		if e.Kind == history.NodeLost {
			n++
		}
	}
	return n
}
