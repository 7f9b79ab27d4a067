package machine

import (
	"slices"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// The disk may have a commit that the agent did not see before the store was set back. The agent
// then claims the job like one that saw it, and a later read of the older state does not change
// that.
func TestStoreBehindTheDisk(t *testing.T) {
	w := replayed(t, "job 2", "enters", "b joins", "ok step",
		"b ready", "ok ready", "ok step", "ok read", "ok start")
	done := w.m.Decide(event.StoreBehind{}, w.now)
	claims := func(done []action.Action) bool {
		return slices.ContainsFunc(done,
			func(a action.Action) bool { r, ok := a.(action.Reclaim); return ok && r.Claim.Behind })
	}
	if w.m.State() != StateCut || !claims(done) {
		t.Errorf("it is %v, and does %v", w.m.State(), done)
	}
	if slices.ContainsFunc(done, func(a action.Action) bool { _, ok := a.(action.HaltWorkers); return ok }) {
		t.Error("its workers are ended")
	}
	w.rev++
	w.see(w.copy(), false)
	if w.m.State() != StateCut {
		t.Errorf("it believes the store again, and is %v", w.m.State())
	}
}

// The store is lost between the registration of a node and its first read. The node claims the commit
// and the generation that the store showed before.
func TestLostBeforeTheFirstRead(t *testing.T) {
	w := replayed(t, "job 2", "b joins")
	head := checkpoint.Head{Number: 5, Order: 50, Copies: 1}
	w.m.Decide(event.Entered{Node: w.register("a"), Job: w.job, Head: head, Fence: 7, TTL: time.Second}, w.now)
	for _, a := range w.m.Decide(event.StoreBehind{}, w.now) {
		if r, ok := a.(action.Reclaim); ok {
			if c := r.Claim; c.Known.Number != 5 || c.Generation != 7 || c.World != 0 {
				t.Errorf("it claims commit %d, generation %d, World %d", c.Known.Number, c.Generation, c.World)
			}
			return
		}
	}
	t.Error("it claims nothing")
}

// A node that claims the job and is dropped meanwhile does not join before the claim is over. Joining
// would claim the job as well, and the two claims would replace each other.
func TestOneClaimOfANode(t *testing.T) {
	w := replayed(t, "job 2", "enters", "b joins", "ok step", "b ready", "ok ready", "ok step", "ok read",
		"ok start")
	does := func(e event.Event) (claims, joins bool) {
		for _, a := range w.m.Decide(e, w.now) {
			switch a.(type) {
			case action.Reclaim:
				claims = true
			case action.Enter:
				joins = true
			}
		}
		return claims, joins
	}
	if claims, _ := does(event.StoreBehind{}); !claims {
		t.Fatal("the job is not claimed")
	}
	w.m.drop()
	w.m.workers.Group = nil
	if _, joins := does(event.Renewed{}); joins {
		t.Error("it joins while it claims")
	}
	if _, joins := does(event.Reclaimed{Err: store.ErrMoved}); !joins {
		t.Error("it does not join after the claim")
	}
}

// The rest after a claim keeps a node from claiming one loss again and again. A loss that comes
// within that rest, after the store had the job again, is claimed at once.
func TestEachLossIsClaimedAtOnce(t *testing.T) {
	w := replayed(t, "job 2", "enters", "b joins", "ok step",
		"b ready", "ok ready", "ok step", "ok read", "ok start")
	claims := func(e event.Event) bool {
		w.now = w.now.Add(Tick)
		return slices.ContainsFunc(w.m.Decide(e, w.now),
			func(a action.Action) bool { _, ok := a.(action.Reclaim); return ok })
	}
	see := func(claims ...rendezvous.Claim) event.Event {
		w.rev++
		s := w.copy()
		s.Claims = claims
		return event.StoreRead{Update: follow.Update{Snapshot: s}}
	}
	other := rendezvous.Claim{Node: "b", Job: w.job, Behind: true}
	if !claims(see(other)) {
		t.Fatal("a loss that another node claims is not claimed")
	}
	if claims(event.Reclaimed{Job: w.job}) || claims(see(other)) {
		t.Error("the same loss is claimed again at once")
	}
	if claims(see()) {
		t.Error("a job that is there is claimed")
	}
	if !claims(see(other)) {
		t.Error("the next loss is not claimed at once")
	}
}

// A read of this node's own records shows a World of a larger generation that was proposed earlier.
func TestReadOfAnotherHistory(t *testing.T) {
	w := replayed(t, "job 2", "enters", "b joins", "ok step", "b ready", "ok ready", "ok step", "ok read",
		"ok start")
	see := func(g schema.Generation, order schema.Order, begun time.Time) {
		w.rev++
		s := w.copy()
		s.Whole, s.World.Rev, s.World.Generation, s.World.Order = false, 1, g, order
		w.m.Decide(event.StoreRead{Update: follow.Update{Snapshot: s, Begun: begun}}, w.now)
	}
	see(2, 20, time.Time{})
	if see(5, 10, w.now.Add(time.Second)); !w.m.seen.behind {
		t.Error("the store is not behind")
	}
}

// The store is replaced by a copy in which other nodes went on: its revisions, generations and numbers
// are larger than those that this node knows, and what it shows was written before. An update of the
// watch shows that first, and is no late one.
func TestStoreOfAnotherHistory(t *testing.T) {
	for what, x := range map[string]struct {
		change func(s *rendezvous.Snapshot)
		behind bool
	}{
		"a later commit and World": {func(s *rendezvous.Snapshot) {
			s.World.Generation, s.World.Order, s.Head = 2, 30, checkpoint.Head{Number: 4, Order: 40}
		}, false},
		"an earlier World": {func(s *rendezvous.Snapshot) { s.World.Generation, s.World.Order = 5, 10 }, true},
		"an earlier commit": {func(s *rendezvous.Snapshot) {
			s.Head = checkpoint.Head{Number: 9, Order: 15}
		}, true},
		"an earlier World in a late update": {func(s *rendezvous.Snapshot) {
			s.Rev, s.World.Rev, s.World.Order = 1, 1, 10
		}, false},
		"an earlier World of an update of this node alone, whose World is late": {func(s *rendezvous.Snapshot) {
			s.Whole, s.World.Rev, s.World.Order = false, 1, 10
		}, false},
		"a World of an update of this node alone": {func(s *rendezvous.Snapshot) {
			s.Whole, s.World.Generation, s.World.Order = false, 5, 10
		}, true},
	} {
		w := replayed(t, "job 2", "enters", "b joins", "ok step", "b ready", "ok ready", "ok step", "ok read",
			"ok start")
		see := func(change func(s *rendezvous.Snapshot)) {
			w.rev++
			s := w.copy()
			s.World.Rev = s.Rev
			change(&s)
			s.Fence = s.World.Generation
			w.m.Decide(event.StoreRead{Update: follow.Update{Snapshot: s}}, w.now)
		}
		see(func(s *rendezvous.Snapshot) {
			s.World.Order, s.Head = 20, checkpoint.Head{Number: 3, Order: 25}
		})
		if see(x.change); w.m.seen.behind != x.behind {
			t.Errorf("%s: behind %v, want %v", what, w.m.seen.behind, x.behind)
		}
		if c := w.m.claim(); x.behind && c.Known.Number != 3 {
			t.Errorf("%s: it claims checkpoint %d", what, c.Known.Number)
		}
	}
}

// No proposal succeeds while there are claims, and each one would use up the number of a
// generation. An agent proposes once the claims are gone, even if it has an older snapshot, or
// found the store behind.
func TestNoProposalWhileTheJobIsClaimed(t *testing.T) {
	w := replayed(t, "job 2", "enters")
	proposals := func(done []action.Action) (n int) {
		for _, a := range done {
			if x, ok := a.(action.Take); ok {
				if _, ok := x.Step.(plan.Propose); ok {
					n++
				}
			}
		}
		return n
	}
	see := func(claims ...rendezvous.Claim) int {
		w.rev++
		s := w.copy()
		s.Claims = claims
		return proposals(w.m.Decide(event.StoreRead{Update: follow.Update{Snapshot: s}}, w.now))
	}
	refused := func() int {
		n := proposals(w.m.Decide(event.Stepped{Err: store.ErrMoved}, w.now))
		w.now = w.now.Add(Tick)
		return n + proposals(w.m.Decide(event.Ticked{}, w.now))
	}
	if err := w.shows([]string{"b", "joins"}); err != nil {
		t.Fatal(err)
	}
	joined := rendezvous.Claim{Node: "c", Job: w.job}
	behind := joined
	behind.Behind = true
	if n := see(); n != 1 {
		t.Fatalf("%d proposals before the claims", n)
	}
	if n := see(behind) + refused() + see(behind, joined); n > 0 {
		t.Errorf("%d proposals while a node claims that the store is behind", n)
	}
	if n := see(joined); n > 0 {
		t.Errorf("%d proposals while the claim of a node is there that joined others", n)
	}
	if n := see(); n != 1 {
		t.Errorf("%d proposals after the claims", n)
	}
}
