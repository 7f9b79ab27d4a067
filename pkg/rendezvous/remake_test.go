package rendezvous_test

import (
	"slices"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/reclaim"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// memberClaim is the claim of a member of job "u" as it was at generation 3, whose members were a
// and b; has are the checkpoints on the member's disk.
func memberClaim(node string, has ...checkpoint.Head) rendezvous.Claim {
	members := []string{"a", "b"}
	c := rendezvous.Claim{Node: node, Looked: true, Generation: 3, World: 3, Count: 2,
		Rank: slices.Index(members, node), Members: members, Heads: has,
		Job: rendezvous.Job{UID: "u", Attempt: 1, Slots: 1, Time: time.Unix(100, 0),
			Rules: rendezvous.Rules{Replicas: 2}},
		Wish: rendezvous.Wish{NP: 2, Request: "r"}, WishRev: 7}
	if n := len(has); n > 0 {
		c.Newest, c.Known = &has[n-1], has[n-1]
	}
	return c
}

// Two nodes make the job again at once, and one of the answers is lost. The result is one job,
// written in one revision.
func TestRemake(t *testing.T) {
	c := memory.New()
	saved1 := checkpoint.Head{Number: 1, Manifest: checkpoint.Hash{1}, Generation: 2, Copies: 1}
	saved2 := checkpoint.Head{Number: 2, Manifest: checkpoint.Hash{2}, Generation: 2, Copies: 1}
	claims := []rendezvous.Claim{memberClaim("a", saved1, saved2), memberClaim("b", saved2)}
	var all []txn.Requests
	for i, k := range claims {
		r := txn.Requests{Store: c.Client(k.Node), Job: "x"}
		lease, _, err := r.Store.Grant(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		claims[i].Lease = lease
		if claims[i].Rev, err = r.Claim(t.Context(),
			txn.Claiming{Claim: claims[i], Seen: &rendezvous.Snapshot{}}); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	s, err := rendezvous.Read(t.Context(), all[0].Store, "x")
	if err != nil || s.Job != nil || len(s.Claims) != 2 || s.Claims[1].Node != "b" ||
		s.Claims[1].Rev != claims[1].Rev {
		t.Fatalf("%v %+v", err, s)
	}
	v := reclaim.Decide(s.Claims, "u", reclaim.ForAll)
	mute := true
	all[0].Store.(*memory.Client).Fates(func(op memory.Op) memory.Fate {
		defer func() { mute = false }()
		return memory.Fate{Mute: mute}
	})
	j, err := all[0].Remake(t.Context(), txn.Remaking{Me: s.Claims[0], Job: v.Remake, Seen: &s})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all[1].Remake(t.Context(),
		txn.Remaking{Me: s.Claims[1], Job: v.Remake, Seen: &s}); !store.Moved(err) {
		t.Errorf("a second one: %v", err)
	}
	if s, err = rendezvous.Read(t.Context(), all[1].Store, "x"); err != nil {
		t.Fatal(err)
	}
	if secret, err := rendezvous.ReadSecret(t.Context(), all[1].Store, "x", j.UID); err != nil ||
		len(secret) == 0 {
		t.Errorf("secret %q, %v", secret, err)
	}
	if s.Job.UID != j.UID || j.UID == "u" || s.Job.Succeeds != "u" || s.Job.Adopted != 2 || s.Wish.NP != 2 ||
		s.Fence != 3 || s.Head.Number != 3 || s.Head.Manifest != (checkpoint.Hash{2}) ||
		len(s.History) != 2 ||
		len(s.Claims) != 0 ||
		len(s.Events) != 1 || s.Events[0].Kind != "job_remade" {
		t.Errorf("%+v", s)
	}
	if read, err := all[0].Store.Get(t.Context(), schema.Job("x").Fence(), ""); err != nil ||
		string(read.One().Value) != schema.FenceValue(j.UID, 3) {
		t.Errorf("fence %s %v", read.One().Value, err)
	}
	// The job was removed in the meantime, so a late request makes nothing.
	if err := all[0].Remove(t.Context(), &s); err != nil {
		t.Fatal(err)
	}
	for _, u := range []schema.UID{"u", j.UID} {
		if gone, err := all[0].Removed(t.Context(), u); !gone || err != nil {
			t.Errorf("job %s was removed, and no tombstone says so: %v", u, err)
		}
	}
	claims[1].Rev, err = all[1].Claim(t.Context(),
		txn.Claiming{Claim: claims[1], Seen: &rendezvous.Snapshot{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all[1].Remake(t.Context(), txn.Remaking{Me: claims[1], Job: v.Remake,
		Seen: &rendezvous.Snapshot{Rev: claims[1].Rev}}); !store.Moved(err) {
		t.Errorf("after rm: %v", err)
	}
}

// A job whose attempt had ended goes on as a new attempt, with the settings of the agent that makes
// it again.
func TestRemakeOfAFailedJob(t *testing.T) {
	c := memory.New()
	r := txn.Requests{Store: c.Client("a"), Job: "x"}
	k := memberClaim("a")
	k.Phase, k.Job.Attempt, k.Members, k.Count = rendezvous.Failed, 2, []string{"a"}, 1
	var err error
	if k.Lease, _, err = r.Store.Grant(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if k.Rev, err = r.Claim(t.Context(), txn.Claiming{Claim: k, Seen: &rendezvous.Snapshot{}}); err != nil {
		t.Fatal(err)
	}
	own := rendezvous.Job{Slots: 1, Limits: rendezvous.Limits{Min: 4, Max: 4, Exact: true}}
	j, err := r.Remake(t.Context(),
		txn.Remaking{Me: k, Job: reclaim.Decide([]rendezvous.Claim{k}, "u", reclaim.ForAll).
			Remake, Own: own, Seen: &rendezvous.Snapshot{Rev: k.Rev}})
	if err != nil || j.Attempt != 3 || j.Limits.Max != 4 || j.Succeeds != "u" {
		t.Fatalf("%v %+v", err, j)
	}
	if s, err := rendezvous.Read(t.Context(), r.Store, "x"); err != nil || s.Wish.NP != 4 {
		t.Errorf("%v %+v", err, s.Wish)
	}
}

// A store is wiped twice. A request from between the two arrives after the second, when every
// revision is the same again. It does not make the job again.
func TestRemakeThatComesLate(t *testing.T) {
	c := memory.New()
	empty := c.Backup()
	r := txn.Requests{Store: c.Client("a"), Job: "x"}
	claim := func() (k rendezvous.Claim, s rendezvous.Snapshot) {
		k = memberClaim("a")
		k.Members, k.Count = []string{"a"}, 1
		var err error
		if k.Lease, _, err = r.Store.Grant(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if k.Rev, err = r.Claim(t.Context(), txn.Claiming{Claim: k, Seen: &s}); err != nil {
			t.Fatal(err)
		}
		if s, err = rendezvous.Read(t.Context(), r.Store, "x"); err != nil {
			t.Fatal(err)
		}
		return k, s
	}
	k, s := claim()
	late := txn.Remaking{Me: k, Job: reclaim.Decide(s.Claims, "u", reclaim.ForAll).Remake, Seen: &s}
	c.Restore(empty)
	if now, _ := claim(); now.Rev != k.Rev {
		t.Fatalf("the revision of the claim was %d, and is %d", k.Rev, now.Rev)
	}
	if j, err := r.Remake(t.Context(), late); !store.Moved(err) {
		t.Errorf("the job was made again by a late request: %v, %+v", err, j)
	}
}

// A request arrives late in a store that was set back to a time at which its node had claimed.
// Since then other nodes have claimed a newer job. That job counts, and the late request is
// refused.
func TestRemakeThatComesLateIntoOlderClaims(t *testing.T) {
	for name, x := range map[string]struct {
		copied int    // claims there when the store was copied
		claims string // the node that claims after it was set back
	}{
		"another claim of one that was there": {copied: 2, claims: "b"},
		"one that was not there":              {copied: 2, claims: "c"},
		"the store is of before all claimed":  {copied: 1, claims: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			c := memory.New()
			r := txn.Requests{Store: c.Client("a"), Job: "x"}
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			claim := func(k rendezvous.Claim) {
				t.Helper()
				var err error
				k.Lease, _, err = r.Store.Grant(t.Context(), time.Minute)
				must(err)
				before, err := r.ClaimRev(t.Context(), k.Node)
				must(err)
				_, err = r.Claim(t.Context(),
					txn.Claiming{Claim: k, Before: before, Seen: &rendezvous.Snapshot{}})
				must(err)
			}
			var old memory.Backup
			for i, k := range []rendezvous.Claim{memberClaim("a"), memberClaim("b")} {
				_, err := r.Store.Txn(t.Context(),
					store.Txn{Then: []store.Write{store.Put("other", []byte("1"))}})
				must(err)
				if claim(k); i+1 == x.copied {
					old = c.Backup()
				}
			}
			s, err := rendezvous.Read(t.Context(), r.Store, "x")
			must(err)
			remake := reclaim.Decide(s.Claims, "u", reclaim.ForAll).Remake
			late := txn.Remaking{Me: s.Claims[0], Job: remake, Seen: &s}
			c.Restore(old)
			newer := memberClaim(x.claims)
			newer.Job.UID, newer.Job.Succeeds = "v", "u"
			claim(newer)
			if j, err := r.Remake(t.Context(), late); !store.Moved(err) {
				t.Errorf("the job was made again by a late request: %v, %+v", err, j)
			}
			s, err = rendezvous.Read(t.Context(), r.Store, "x")
			must(err)
			if s.Job != nil {
				t.Errorf("there is a job: %+v", s.Job)
			}
		})
	}
}

// A claim is sent twice, because its answer is lost. The first sending arrives after a newer claim,
// and does not replace it.
func TestClaimThatComesLate(t *testing.T) {
	c := memory.New()
	r := txn.Requests{Store: c.Client("a"), Job: "x"}
	k := memberClaim("a")
	var err error
	if k.Lease, _, err = r.Store.Grant(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	first := txn.Claiming{Claim: k, Seen: &rendezvous.Snapshot{}}
	first.Claim.Looked = false
	rev, err := r.Claim(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = r.Claim(t.Context(),
		txn.Claiming{Claim: k, Before: rev, Seen: &rendezvous.Snapshot{}}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Claim(t.Context(), first); !store.Moved(err) {
		t.Errorf("a late claim replaced a newer one: %v", err)
	}
	if s, err := rendezvous.Read(t.Context(), r.Store, "x"); err != nil || len(s.Claims) != 1 ||
		!s.Claims[0].Looked {
		t.Errorf("%v %+v", err, s.Claims)
	}
}
