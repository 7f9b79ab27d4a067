package simulation

import (
	"slices"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/plan/ledger"
	"github.com/elasticd/elastic/pkg/store"
)

// noteCommit records the head of snap. If it has one copy, the newest commit with two copies must
// stay in the record, and readable after the loss of any one machine. mu is held.
func (s *faulty) noteCommit(snap *rendezvous.Snapshot) {
	h := snap.Head
	if n := len(s.commits); n > 0 && s.commits[n-1].head.Number == h.Number || h.Number == 0 {
		return
	}
	nodes := 0
	for _, n := range snap.Nodes { // one that came in the meantime is not known to the node that commits
		if a := s.at[n.Node]; a != nil && a.undisturbed() {
			nodes++
		}
	}
	s.commits = append(s.commits, committed{h, time.Now(), nodes})
	s.stepOf(h)
	if h.Copies >= 2 || s.safe.Number > h.Number {
		if s.safe = h; len(s.lost) > 0 {
			s.safe = checkpoint.Head{} // a holder lost its disk between its acknowledgement and the commit
		}
		return
	}
	if s.safe.Number == 0 || s.forgot || len(s.lost) > 0 {
		return
	}
	recorded := slices.Concat(snap.History, []checkpoint.Head{h})
	for _, lost := range s.names {
		if !slices.ContainsFunc(recorded, func(r checkpoint.Head) bool { return s.elsewhere(r, lost) }) {
			s.wrongf("checkpoint %d had two copies, %d has one, and without %s no checkpoint of the record "+
				"is readable", s.safe.Number, h.Number, lost)
		}
	}
}

// elsewhere reports whether a machine other than that one has a checkpoint. mu is held.
func (s *faulty) elsewhere(h checkpoint.Head, than string) bool {
	if s.layout == layoutParts {
		_, err := s.filesOf(h.Manifest, func(host *simHost) bool { return host != s.hosts[than] })
		return err == nil
	}
	return slices.ContainsFunc(s.names, func(name string) bool { return name != than && s.hasFiles(name, h) })
}

// hasFiles reports whether a machine has the files of a checkpoint. mu is held.
func (s *faulty) hasFiles(name string, h checkpoint.Head) bool {
	host := s.hosts[name]
	if host == nil {
		return false
	}
	_, err := stepsIn(host.chunks(s.job.Name), h.Manifest)
	return err == nil
}

// hasCopies checks a node that only the store did not reach for a while. It must have got copies of
// the commits of that time, if no other node could take them and the committing node knows its
// address. A store that was set back may never have had its registration.
func (s *faulty) hasCopies(a *simAgent, span time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.layout == layoutParts || len(s.names) > 2 || span < 20*time.Second || a.isDead() || a.cut {
		return
	}
	if s.known == nil || a.host.uid != s.known.UID {
		return // the job was made again, and no node of it knows a
	}
	for _, b := range s.at {
		if b != a && (b.isDead() || time.Since(b.upSince) < span || !b.kept.met[a.hello.Incarnation]) {
			return
		}
	}
	since := slices.DeleteFunc(slices.Clone(s.commits), func(c committed) bool {
		return time.Since(c.at) > span-10*time.Second || time.Since(c.at) < 3*time.Second
	})
	has := slices.ContainsFunc(since, func(c committed) bool {
		_, err := stepsIn(a.host.chunks(s.job.Name), c.head.Manifest)
		return err == nil
	})
	if len(since) > 2 && !has {
		s.wrongf("%s answers, and has no copy of %d commits that were made while the store did not reach it",
			a.label(), len(since))
	}
}

// stranded reports whether the job says that no world can begin, and no machine has a whole checkpoint of it: it
// failed, or was recovered by an operator and waits for a node that brings one.
func (s *faulty) stranded(x *rendezvous.Snapshot) bool {
	var asked []checkpoint.Head
	switch w := x.World; {
	case w != nil && w.Phase == rendezvous.Failed && w.Outcome.Code == ledger.ExitNever:
		asked = append(slices.Clone(x.History), x.Head)
	case x.Job != nil && x.LacksBrought() && s.layout == layoutParts:
		return true // each node brings its newest alone, and these may be parts of different checkpoints
	case x.Job != nil && x.LacksBrought():
		for _, b := range x.Brought {
			asked = append(asked, b.Head)
		}
	default:
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !slices.ContainsFunc(asked, func(h checkpoint.Head) bool {
		_, err := s.filesOf(h.Manifest, func(*simHost) bool { return true })
		return err == nil
	})
}

// goesOn waits until a newer save is committed, or is reported as waiting.
func (s *faulty) goesOn() {
	s.t.Helper()
	s.mu.Lock()
	was, began := s.head, time.Now()
	s.mu.Unlock()
	s.until("a newer save is committed", 2*time.Minute, func(x rendezvous.Snapshot) bool {
		s.tend(&s.tender, s.at, s.up, &x)
		s.mu.Lock()
		defer s.mu.Unlock()
		reported := func(d doubt) bool { return began.Sub(d.at) < time.Minute }
		return s.head.Number > was.Number || s.layout == layoutUnsure && slices.ContainsFunc(s.doubts, reported)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, d := range s.doubts { // once while workers run, and once when they end
		n := 0
		for _, o := range s.doubts[:i+1] {
			if o.by == d.by && o.in == d.in && d.at.Sub(o.at) < 10*time.Second {
				n++
			}
		}
		if n > 2 {
			s.wrongf("%s reported a save that waits %d times in 10 seconds", d.by.label(), n)
		}
	}
}

// longAgo gives the job a history of events.
func (s *faulty) longAgo() {
	for i := range 2 * history.Kept {
		w := history.Tell(s.job.Name, history.Event{Kind: history.Committed, Generation: 1})
		if _, err := s.etcd.Client("past").Txn(s.t.Context(), store.Txn{Then: []store.Write{w}}); err != nil {
			s.t.Fatal(i, err)
		}
	}
}

// bounded gives the job a long history of events, and waits until one agent has made enough commits
// to trim it.
func (s *faulty) bounded() {
	s.t.Helper()
	s.longAgo()
	var first checkpoint.Head // of a generation; its commits are those of one agent
	s.until("one agent has committed often", 5*time.Minute, func(x rendezvous.Snapshot) bool {
		if x.Head.Generation != first.Generation {
			first = x.Head
		}
		return x.Head.Number > first.Number+history.TrimEvery+50
	})
	if n, most := len(s.entries(s.job.Name.Events())), history.Kept+6*history.TrimEvery; n > most {
		s.note("%d events are in the store", n)
		s.t.Errorf("%d events are in the store, more than %d", n, most)
	}
}

// noteWorld checks that no generation number is used twice in a job. mu is held.
func (s *faulty) noteWorld(w *rendezvous.World) {
	if w == nil {
		return
	}
	if was, ok := s.proposals[w.Generation]; ok && was != w.Proposal {
		s.wrongf("generation %d was proposed twice", w.Generation)
	}
	s.proposals[w.Generation] = w.Proposal
}
