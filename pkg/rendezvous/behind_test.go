package rendezvous_test

import (
	"context"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
	"github.com/elasticd/elastic/pkg/rendezvous/reclaim"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// Ahead compares what a node knows with a later read. The store is behind if it is older in any
// respect. Another job is not behind.
func TestAhead(t *testing.T) {
	c := rendezvous.Claim{Job: rendezvous.Job{UID: "u", Succeeds: "t"}, Generation: 3, World: 3,
		WorldOrder: 30, Known: checkpoint.Head{Number: 7, Order: 70}, Cluster: 1, StoreRev: 50}
	store := func(change func(s *rendezvous.Snapshot)) rendezvous.Snapshot {
		s := rendezvous.Snapshot{Job: &rendezvous.Job{UID: "u"}, Fence: 3,
			World: &rendezvous.World{Generation: 3, Order: 30},
			Head:  checkpoint.Head{Number: 7, Order: 70}, Cluster: 1, Rev: 50}
		change(&s)
		return s
	}
	for name, x := range map[string]struct {
		change func(s *rendezvous.Snapshot)
		behind bool
	}{
		"as it was": {func(*rendezvous.Snapshot) {}, false},
		"newer": {func(s *rendezvous.Snapshot) { s.Fence, s.Rev = 4, 60; s.Head.Number, s.Head.Order = 8, 80 },
			false},
		"wiped": {func(s *rendezvous.Snapshot) {
			*s = rendezvous.Snapshot{Cluster: 2, Rev: 1}
		}, true},
		"an older generation":                    {func(s *rendezvous.Snapshot) { s.Fence = 2 }, true},
		"an older commit":                        {func(s *rendezvous.Snapshot) { s.Head.Number = 6 }, true},
		"as many commits, the last made earlier": {func(s *rendezvous.Snapshot) { s.Head.Order = 60 }, true},
		"more commits, the last made earlier": {func(s *rendezvous.Snapshot) {
			s.Head.Number, s.Head.Order = 9, 60
		}, true},
		"another World of the generation, proposed earlier": {func(s *rendezvous.Snapshot) {
			s.World.Order = 20
		}, true},
		"no world":             {func(s *rendezvous.Snapshot) { s.World = nil }, true},
		"an older revision":    {func(s *rendezvous.Snapshot) { s.Rev = 49 }, true},
		"of another cluster":   {func(s *rendezvous.Snapshot) { s.Cluster, s.Rev = 2, 10 }, false},
		"under an earlier uid": {func(s *rendezvous.Snapshot) { s.Job.UID = "t" }, true},
		"made again": {func(s *rendezvous.Snapshot) { s.Job.UID, s.Job.Succeeds, s.Fence = "v", "u", 1 },
			false},
		"another job, and older": {func(s *rendezvous.Snapshot) { s.Job.UID, s.Fence = "w", 1 }, false},
		"begun anew":             {func(s *rendezvous.Snapshot) { *s = begunAnew() }, true},
		"begun anew, and made again": {func(s *rendezvous.Snapshot) {
			*s = begunAnew()
			s.Job.Succeeds = "x"
		}, true},
	} {
		if s := store(x.change); c.Ahead(&s) != x.behind {
			t.Errorf("%s: behind %v, want %v", name, !x.behind, x.behind)
		}
	}
}

// begunAnew is a store in which nodes made the job w, and wait for more.
func begunAnew() rendezvous.Snapshot {
	return rendezvous.Snapshot{Job: &rendezvous.Job{UID: "w"}, Cluster: 2, Rev: 9}
}

// A job that ran, and is not done, outranks one that never ran.
func TestOutranks(t *testing.T) {
	for name, x := range map[string]struct {
		change func(*rendezvous.Claim)
		want   bool
	}{
		"it ran":        {func(*rendezvous.Claim) {}, true},
		"it failed":     {func(c *rendezvous.Claim) { c.Phase = rendezvous.Failed }, true},
		"it never ran":  {func(c *rendezvous.Claim) { c.World = 0 }, false},
		"made again":    {func(c *rendezvous.Claim) { c.World, c.Job.Succeeds = 0, "t" }, false},
		"it ran before": {func(c *rendezvous.Claim) { c.World, c.Job.Ran = 0, true }, true},
		"one commit":    {func(c *rendezvous.Claim) { c.World, c.Known.Number = 0, 1 }, true},
		"it is done":    {func(c *rendezvous.Claim) { c.Phase = rendezvous.Done }, false},
		"the same job":  {func(c *rendezvous.Claim) { c.Job.UID = "w" }, false},
		"one before it": {func(c *rendezvous.Claim) { c.Job.Succeeds = "w" }, true},
	} {
		c, s := rendezvous.Claim{Job: rendezvous.Job{UID: "u"}, World: 3, Behind: true}, begunAnew()
		x.change(&c)
		s.Claims = []rendezvous.Claim{c}
		if c.Outranks(&s) != x.want {
			t.Errorf("%s: outranks %v, want %v", name, !x.want, x.want)
		}
		if related := c.Job.UID == "w" || c.Job.Succeeds == "w"; s.Claimed(s.Job) != (x.want || related) {
			t.Errorf("%s: claimed %v", name, s.Claimed(s.Job))
		}
	}
}

// A job that ran is replaced only by one that was made after it in the same store.
func TestOutranksAJobThatRan(t *testing.T) {
	made := time.Unix(1000, 0)
	for name, x := range map[string]struct {
		cluster uint64
		rev     int64 // that the node read last
		time    time.Time
		want    bool
	}{
		"made later in this store":    {7, 9, made.Add(time.Minute), true},
		"made later in another store": {8, 9, made.Add(time.Minute), false},
		"made at the same time":       {7, 9, made, false},
		"made before":                 {7, 9, made.Add(-time.Minute), false},
		"by a clock that is ahead":    {7, 4, made.Add(time.Minute), false},
	} {
		s := rendezvous.Snapshot{Cluster: 7, Fence: 3, Job: &rendezvous.Job{UID: "w", Time: made, Rev: 5}}
		c := rendezvous.Claim{Job: rendezvous.Job{UID: "u", Time: x.time}, World: 3, Behind: true,
			Cluster: x.cluster, StoreRev: x.rev}
		s.Claims = []rendezvous.Claim{c}
		if c.Outranks(&s) != x.want || c.Ahead(&s) != x.want || s.Claimed(s.Job) != x.want {
			t.Errorf("%s: outranks %t, ahead %t, claimed %t, want %t", name, c.Outranks(&s), c.Ahead(&s),
				s.Claimed(s.Job), x.want)
		}
	}
}

// A follower that reads only the claims knows whether the job has run.
func TestClaimsToAJobThatRan(t *testing.T) {
	w := newStoredJob(t, memory.New().Client("a"), "x")
	w.uid = "w"
	w.create(2)
	w.claim(rendezvous.Claim{Node: "b", Job: rendezvous.Job{UID: "u"}, World: 3, Behind: true})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reader := follow.Reader{Store: w.Store, Job: w.Job, Members: new(follow.MemberCache)}
	seen := reader.Follow(ctx, follow.ScopeClaims)
	if s := <-seen; s.Err != nil || !s.Claimed(s.Job) {
		t.Errorf("before it ran: claimed %v, %v", s.Claimed(s.Job), s.Err)
	}
	w.put(w.Job.Fence(), []byte(schema.FenceValue("w", 1)))
	if s := <-seen; s.Err != nil || s.Claimed(s.Job) {
		t.Errorf("since it ran: claimed %v, %v", s.Claimed(s.Job), s.Err)
	}
}

// A job that went on from an older store may have as many commits as a node knows, at earlier
// steps.
func TestPassedOver(t *testing.T) {
	c := rendezvous.Claim{Job: rendezvous.Job{UID: "u"}, Generation: 3, World: 3,
		Known: checkpoint.Head{Number: 7, Manifest: checkpoint.Hash{7}, Step: new(int64(70))}}
	known, later := c.Known.Manifest, int64(71)
	for name, x := range map[string]struct {
		change func(s *rendezvous.Snapshot)
		want   bool
	}{
		"of an earlier step":                  {func(*rendezvous.Snapshot) {}, true},
		"of a later step":                     {func(s *rendezvous.Snapshot) { s.Head.Step = &later }, false},
		"of no known step":                    {func(s *rendezvous.Snapshot) { s.Head.Step = nil }, false},
		"the same one":                        {func(s *rendezvous.Snapshot) { s.Head.Manifest = known }, false},
		"another job":                         {func(s *rendezvous.Snapshot) { s.Job.UID = "v" }, false},
		"it went back, and trains from there": {func(s *rendezvous.Snapshot) { s.World.Rollback = 4 }, false},
		"it is to go back":                    {func(s *rendezvous.Snapshot) { s.Fence = 5 }, false},
		"it went back before the node was in": {func(s *rendezvous.Snapshot) { s.World.Rollback = 2 }, true},
	} {
		s := rendezvous.Snapshot{Job: &rendezvous.Job{UID: "u"}, Fence: 4, World: &rendezvous.World{Generation: 4},
			Head: checkpoint.Head{Number: 9, Manifest: checkpoint.Hash{9}, Step: new(int64(12))}}
		x.change(&s)
		if c.PassedOver(&s) != x.want {
			t.Errorf("%s: passed over %v, want %v", name, !x.want, x.want)
		}
	}
}

// The head is on a registered node if, since that node registered, it said so or the head was
// committed.
func TestHeadIsHere(t *testing.T) {
	a := membership.Node{Ref: membership.Ref{Node: "a"}, Rev: 20}
	head := func(rev int64) checkpoint.Head {
		return checkpoint.Head{Number: 4, Rev: rev, Holders: []membership.Ref{{Node: "a"}}}
	}
	held := func(rev int64, n checkpoint.Number) map[string]rendezvous.Held {
		return map[string]rendezvous.Held{"a": {Numbers: []checkpoint.Number{n}, Rev: rev}}
	}
	for _, c := range []struct {
		what string
		s    rendezvous.Snapshot
		want bool
	}{
		{"no checkpoint", rendezvous.Snapshot{Nodes: []membership.Node{a}}, true},
		{"committed since", rendezvous.Snapshot{Nodes: []membership.Node{a}, Head: head(21)}, true},
		{"committed before", rendezvous.Snapshot{Nodes: []membership.Node{a}, Head: head(10)}, false},
		{"said since", rendezvous.Snapshot{Nodes: []membership.Node{a}, Head: head(10), Held: held(21, 4)},
			true},
		{"said before", rendezvous.Snapshot{Nodes: []membership.Node{a}, Head: head(10), Held: held(11, 4)},
			false},
		{"has another", rendezvous.Snapshot{Nodes: []membership.Node{a}, Head: head(10), Held: held(21, 5)},
			false},
		{"not here", rendezvous.Snapshot{Head: head(10), Held: held(11, 4)}, false},
	} {
		if got := c.s.HeadIsHere(); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

// The store has an older state of the job. While a node claims the job, no proposal succeeds. The
// job is made again in one transaction, unless something changed since the read. The records of its
// checkpoints stay.
func TestRemakeOverAnOlderStore(t *testing.T) {
	w := newStoredJob(t, memory.New().Client("a"), "x").create(2).join("a").propose("a")
	older := checkpoint.Head{Number: 1, Generation: 1, Manifest: checkpoint.Hash{9}}
	w.record(w.Job.Checkpoint(1), older)
	w.record(w.Job.Head(), older)

	saved := checkpoint.Head{Number: 2, Manifest: checkpoint.Hash{2}, Generation: 2, Copies: 1}
	k := memberClaim("a", saved)
	k.Behind, k.Members, k.Count = true, []string{"a"}, 1
	k = w.claim(k)
	s := w.see()
	if _, err := w.Propose(t.Context(), s, w.me(), w.next(s, "a")); !store.Moved(err) {
		t.Errorf("a generation was proposed in a store that is behind: %v", err)
	}
	if !s.Claimed(s.Job) {
		t.Error("no reader sees that it is claimed")
	}
	remake := func(s *rendezvous.Snapshot) (rendezvous.Job, error) {
		return w.Remake(t.Context(), txn.Remaking{Me: k, Seen: s,
			Job: reclaim.Decide([]rendezvous.Claim{k}, "u", reclaim.ForAll).Remake})
	}
	w.record(w.Job.Head(), checkpoint.Head{Number: 3, Generation: 1, Manifest: checkpoint.Hash{8}})
	if _, err := remake(s); !store.Moved(err) {
		t.Errorf("it was made again over a commit of this moment: %v", err)
	}
	s = w.see()
	w.must(w.Reopen(t.Context(), s, *s.Job))
	if _, err := remake(s); !store.Moved(err) {
		t.Errorf("it was made again over an attempt of this moment: %v", err)
	}
	j, err := remake(w.see())
	w.must(err)
	s = w.see()
	if s.Job.UID != j.UID || s.Job.Succeeds != "u" || s.World != nil || len(s.Nodes) != 0 ||
		len(s.Claims) != 0 || s.Fence != 3 ||
		s.Head.Manifest != saved.Manifest || len(s.History) != 2 {
		t.Errorf("%+v", s)
	}
}
