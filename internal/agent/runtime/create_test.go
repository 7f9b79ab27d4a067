package runtime

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/internal/agent/refusal"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// The store stops answering between the read that shows no such job and the request that makes the
// job. It counts as a store that does not answer.
func TestNotMadeWithinTheConnectTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "1", 1)
		a := s.makeAgent("a")
		a.cfg.ConnectTimeout = 20 * time.Second
		a.client.Fates(func(op memory.Op) memory.Fate {
			if op.Kind == memory.Txn {
				a.client.Cut(true)
			}
			return memory.Fate{}
		})
		s.run(a)
		select {
		case <-a.done:
		case <-time.After(2 * time.Minute):
			t.Fatalf("it waits on\n%s", s.story())
		}
		if a.result.Status != 124 || !errors.Is(a.result.Err, refusal.ErrNoStore) {
			t.Errorf("it ended with %d, %v", a.result.Status, a.result.Err)
		}
	})
}

// The first job on a new server is made after a short wait, which is reported. On an older server
// it is made at once.
func TestANewServerIsReported(t *testing.T) {
	const line = "says: new server, or it was away: waiting 1s in case nodes of an earlier job x report"
	for name, c := range map[string]struct {
		waits bool
		make  func(cl store.Store, rev func() int64)
	}{
		"young": {true, func(store.Store, func() int64) {}},
		"in its place": {false, func(cl store.Store, rev func() int64) {
			for rev() < 100 {
				cl.Txn(t.Context(), store.Txn{Then: []store.Write{store.Put("/other", []byte("1"))}})
			}
		}},
		"up for long enough": {false, func(cl store.Store, _ func() int64) {
			cl.Txn(t.Context(), store.Txn{Then: []store.Write{store.Put(schema.Settled, []byte("v1"))}})
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newWiped(t, "1", 1)
			c.make(s.etcd.Client("others"), s.etcd.Rev)
			s.start("a")
			s.until("generation 1 runs", 30*time.Second, s.running(1, 1))
			if n := strings.Count(s.story(), line); n != map[bool]int{true: 1}[c.waits] {
				t.Errorf("%s: it was said %d times\n%s", name, n, s.story())
			}
			s.end()
		})
	}
}

// The wait on a new server ends once the server has been up for long enough, however late the first
// agent came. If nodes claim the job when the server writes that, they are still waited for.
func TestTheWaitEndsWithTheAgeOfTheServer(t *testing.T) {
	for name, claimed := range map[string]bool{
		"no node reports": false, "a node of an earlier job reports": true,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newWiped(t, "1", 1)
			write := func(w ...store.Write) {
				if _, err := s.etcd.Client("others").Txn(t.Context(), store.Txn{Then: w}); err != nil {
					t.Fatal(err)
				}
			}
			s.start("a")
			time.Sleep(500 * time.Millisecond)
			if claimed {
				job := s.job
				job.UID = "gone"
				write(store.Put(s.job.Name.Claim("z"), schema.Encode(rendezvous.Claim{Node: "z", Job: job})))
			}
			write(store.Put(schema.Settled, []byte("v1")))
			time.Sleep(500 * time.Millisecond)
			if made := s.snapshot().Job != nil; made == claimed {
				t.Errorf("%s: after half a second the job is made: %v\n%s", name, made, s.story())
			}
			write(store.Delete(s.job.Name.Claim("z")))
			s.until("generation 1 runs", 2*time.Minute, s.running(1, 1))
			s.end()
		})
	}
}

// However long the server was away, nodes of a lost job claim it before a node that comes with the
// new server may make it.
func TestANewServerIsClaimedBeforeItSettles(t *testing.T) {
	// These times are needed to connect, to notice the loss, and for a pause. In this simulation
	// they do not pass.
	if need := 2*store.Again + 500*time.Millisecond; schema.SettleTime < need {
		t.Errorf("a server settles after %s; nodes need %s to report", schema.SettleTime, need)
	}
	for away := 100 * time.Millisecond; away < 15*time.Second; away = away*5/4 + 7*time.Millisecond {
		for name, ended := range map[string]bool{
			"its agents live": false, "its agents came back meanwhile": true,
		} {
			synctest.Test(t, func(t *testing.T) {
				s := newWiped(t, "2:3", uint64(away))
				nodes := s.trains("a", "b")
				s.commit()
				time.Sleep(time.Second)
				s.etcd.Down()
				if ended {
					nodes[0].kill()
					nodes[1].kill()
					s.start("a")
					s.start("b")
				}
				time.Sleep(away)
				s.wipe()
				s.etcd.Up()
				s.start("c")
				s.until(name+": it goes on, and c joins it", 3*time.Minute, func(x rendezvous.Snapshot) bool {
					return x.World != nil && x.World.Generation > 1 && x.World.Phase == rendezvous.Running &&
						len(x.World.Members) == 3
				})
				s.end()
			})
		}
	}
}

// A claim ends with its lease, even while the store stalls. A node that was never in the job does
// not make it from scratch right after the last claim, but only after the time in which claimants
// return.
func TestClaimsThatEndAreNoLeaveToBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "1", 1)
		claim := s.job.Name.Claim("z")
		write := func(w store.Write) {
			if _, err := s.etcd.Client("z").Txn(t.Context(), store.Txn{Then: []store.Write{w}}); err != nil {
				t.Fatal(err)
			}
		}
		job := s.job
		job.UID = "gone"
		write(store.Put(claim, schema.Encode(rendezvous.Claim{Node: "z", Job: job})))
		s.start("a")
		time.Sleep(5 * time.Second)
		write(store.Delete(claim))
		time.Sleep(50 * time.Second)
		if snap := s.snapshot(); snap.Job != nil {
			t.Errorf("it was begun from scratch\n%s", s.story())
		}
		s.until("no claimant came back: it runs", 30*time.Second, s.running(1, 1))
		s.finish()
	})
}

// While a claim cannot be decoded, the job is not made again: nothing is decided without the
// content of that claim.
func TestUnreadableClaimIsWaitedFor(t *testing.T) {
	for name, value := range map[string]string{"newer": `{"format":99,"record":{}}`, "garbage": "garbage"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newWiped(t, "2", 1)
				nodes := s.trains("a", "b")
				a, b := nodes[0], nodes[1]
				b.kill()
				s.wipe()
				c := s.start("c")
				s.until("a claims it", 30*time.Second,
					func(x rendezvous.Snapshot) bool { return len(x.Claims) == 1 })
				s.stop() // the observer cannot read the claim, either
				synctest.Wait()
				key, client := s.job.Name.Claim("z"), s.etcd.Client("other")
				if _, err := client.Txn(t.Context(),
					store.Txn{Then: []store.Write{store.Put(key, []byte(value))}}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * time.Minute) // far beyond every limit: the job would have been made again
				for _, x := range []*simAgent{a, c} {
					select {
					case <-x.done:
						t.Errorf("%s ended with %d, %v", x.name, x.result.Status, x.result.Err)
					default:
					}
				}
				if r, err := client.Get(t.Context(), s.job.Name.Job(), ""); err != nil || r.One() != nil {
					t.Errorf("the job was made again: %v, %v", r, err)
				}
				if _, err := client.Txn(t.Context(),
					store.Txn{Then: []store.Write{store.Delete(key)}}); err != nil {
					t.Fatal(err)
				}
				for began := time.Now(); ; time.Sleep(time.Second) {
					if r, err := client.Get(t.Context(), s.job.Name.Job(), ""); err != nil || r.One() != nil {
						break
					}
					if time.Since(began) > 5*time.Minute {
						t.Errorf("it is not made again\n%s", s.story())
						break
					}
				}
				a.kill()
				c.kill()
			})
		})
	}
}
