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
	var all []*storedJob
	for i, k := range claims {
		w := newStoredJob(t, c.Client(k.Node), "x")
		claims[i] = w.claim(k)
		all = append(all, w)
	}
	s := all[0].see()
	if s.Job != nil || len(s.Claims) != 2 || s.Claims[1].Node != "b" || s.Claims[1].Rev != claims[1].Rev {
		t.Fatalf("%+v", s)
	}
	v := reclaim.Decide(s.Claims, "u", reclaim.ForAll)
	mute := true
	all[0].Store.(*memory.Client).Fates(func(op memory.Op) memory.Fate {
		defer func() { mute = false }()
		return memory.Fate{Mute: mute}
	})
	j, err := all[0].Remake(t.Context(), txn.Remaking{Me: s.Claims[0], Job: v.Remake, Seen: s})
	all[0].must(err)
	if _, err := all[1].Remake(t.Context(),
		txn.Remaking{Me: s.Claims[1], Job: v.Remake, Seen: s}); !store.Moved(err) {
		t.Errorf("a second one: %v", err)
	}
	s = all[1].see()
	if secret, err := rendezvous.ReadSecret(t.Context(), all[1].Store, "x", j.UID); err != nil ||
		len(secret) == 0 {
		t.Errorf("secret %q, %v", secret, err)
	}
	if s.Job.UID != j.UID || j.UID == "u" || s.Job.Succeeds != "u" || s.Job.Adopted != 2 || s.Wish.NP != 2 ||
		s.Fence != 3 || s.Head.Number != 3 || s.Head.Manifest != (checkpoint.Hash{2}) ||
		len(s.History) != 2 || len(s.Claims) != 0 || len(s.Events) != 1 || s.Events[0].Kind != "job_remade" {
		t.Errorf("%+v", s)
	}
	if read, err := all[0].Store.Get(t.Context(), schema.Job("x").Fence(), ""); err != nil ||
		string(read.One().Value) != schema.FenceValue(j.UID, 3) {
		t.Errorf("fence %s %v", read.One().Value, err)
	}
	// The job was removed in the meantime, so a late request makes nothing.
	all[0].must(all[0].Remove(t.Context(), s))
	for _, u := range []schema.UID{"u", j.UID} {
		if gone, err := all[0].Removed(t.Context(), u); !gone || err != nil {
			t.Errorf("job %s was removed, and no tombstone says so: %v", u, err)
		}
	}
	claims[1] = all[1].claim(claims[1])
	if _, err := all[1].Remake(t.Context(), txn.Remaking{Me: claims[1], Job: v.Remake,
		Seen: &rendezvous.Snapshot{Rev: claims[1].Rev}}); !store.Moved(err) {
		t.Errorf("after rm: %v", err)
	}
}

// A job whose attempt had ended goes on as a new attempt, with the settings of the agent that makes
// it again.
func TestRemakeOfAFailedJob(t *testing.T) {
	w := newStoredJob(t, memory.New().Client("a"), "x")
	k := memberClaim("a")
	k.Phase, k.Job.Attempt, k.Members, k.Count = rendezvous.Failed, 2, []string{"a"}, 1
	k = w.claim(k)
	own := rendezvous.Job{Slots: 1, Limits: rendezvous.Limits{Min: 4, Max: 4, Exact: true}}
	j, err := w.Remake(t.Context(), txn.Remaking{Me: k, Own: own, Seen: &rendezvous.Snapshot{Rev: k.Rev},
		Job: reclaim.Decide([]rendezvous.Claim{k}, "u", reclaim.ForAll).Remake})
	if err != nil || j.Attempt != 3 || j.Limits.Max != 4 || j.Succeeds != "u" {
		t.Fatalf("%v %+v", err, j)
	}
	if s := w.see(); s.Wish.NP != 4 {
		t.Errorf("%+v", s.Wish)
	}
}

// A store is wiped twice. A request from between the two arrives after the second, when every
// revision is the same again. It does not make the job again.
func TestRemakeThatComesLate(t *testing.T) {
	c := memory.New()
	empty := c.Backup()
	w := newStoredJob(t, c.Client("a"), "x")
	alone := memberClaim("a")
	alone.Members, alone.Count = []string{"a"}, 1
	k := w.claim(alone)
	s := w.see()
	late := txn.Remaking{Me: k, Job: reclaim.Decide(s.Claims, "u", reclaim.ForAll).Remake, Seen: s}
	c.Restore(empty)
	if now := w.claim(alone); now.Rev != k.Rev {
		t.Fatalf("the revision of the claim was %d, and is %d", k.Rev, now.Rev)
	}
	if j, err := w.Remake(t.Context(), late); !store.Moved(err) {
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
			w := newStoredJob(t, c.Client("a"), "x")
			var old memory.Backup
			for i, k := range []rendezvous.Claim{memberClaim("a"), memberClaim("b")} {
				w.put("other", []byte("1"))
				if w.claim(k); i+1 == x.copied {
					old = c.Backup()
				}
			}
			s := w.see()
			remake := reclaim.Decide(s.Claims, "u", reclaim.ForAll).Remake
			late := txn.Remaking{Me: s.Claims[0], Job: remake, Seen: s}
			c.Restore(old)
			newer := memberClaim(x.claims)
			newer.Job.UID, newer.Job.Succeeds = "v", "u"
			w.claim(newer)
			if j, err := w.Remake(t.Context(), late); !store.Moved(err) {
				t.Errorf("the job was made again by a late request: %v, %+v", err, j)
			}
			if s := w.see(); s.Job != nil {
				t.Errorf("there is a job: %+v", s.Job)
			}
		})
	}
}

// A claim is sent twice, because its answer is lost. The first sending arrives after a newer claim,
// and does not replace it.
func TestClaimThatComesLate(t *testing.T) {
	w := newStoredJob(t, memory.New().Client("a"), "x")
	k := memberClaim("a")
	k.Looked = false
	first := txn.Claiming{Claim: w.claim(k), Seen: &rendezvous.Snapshot{}}
	k.Looked = true
	w.claim(k)
	if _, err := w.Claim(t.Context(), first); !store.Moved(err) {
		t.Errorf("a late claim replaced a newer one: %v", err)
	}
	if s := w.see(); len(s.Claims) != 1 || !s.Claims[0].Looked {
		t.Errorf("%+v", s.Claims)
	}
}
