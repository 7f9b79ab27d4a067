package rendezvous_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/follow"
	"github.com/elasticd/elastic/pkg/rendezvous/plan"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// reader follows a job and keeps its updates.
type reader struct {
	t    *testing.T
	w    *storedJob // writes, past every fault
	c    *memory.Cluster
	cl   *memory.Client // through which it is followed
	seen <-chan follow.Update
	last follow.Update
	end  context.CancelFunc
}

// between makes something happen before a watch is opened.
type between struct {
	store.Store
	list func()
}

func (b between) Watch(ctx context.Context, key, end string, from int64) <-chan store.Change {
	b.list()
	return b.Store.Watch(ctx, key, end, from)
}

func followed(t *testing.T, scope follow.Scope, listed func(w *storedJob)) *reader {
	c := memory.New()
	r := &reader{t: t, c: c, cl: c.Client("reader"), w: newStoredJob(t, c.Client("writer"), "x").create(2).
		join("a", "b").run("a", "b")}
	var s store.Store = r.cl
	if listed != nil {
		s = between{r.cl, func() { listed(r.w) }}
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.end = cancel
	r.seen = follow.Reader{Store: s, Job: "x", Node: "b"}.Follow(ctx, scope)
	return r
}

// upToDate is a reader that follows the whole job, and has the list of its nodes.
func upToDate(t *testing.T) *reader {
	t.Helper()
	r := followed(t, follow.ScopeAll, nil)
	t.Cleanup(r.end)
	r.until("the list", time.Second, nodesAre("a", "b"))
	return r
}

// until reads updates until ok accepts one, and returns how long that took.
func (r *reader) until(what string, limit time.Duration, ok func(follow.Update) bool) time.Duration {
	r.t.Helper()
	begun := time.Now()
	late := time.After(limit)
	for {
		select {
		case s, open := <-r.seen:
			if !open {
				r.t.Fatalf("%s: nothing is sent any more", what)
			}
			if s.Err == nil && s.Cluster == r.last.Cluster && s.Rev < r.last.Rev {
				r.t.Fatalf("%s: revision %d after %d", what, s.Rev, r.last.Rev)
			}
			if s.Err == nil {
				r.last = s
			}
			if ok(s) {
				return time.Since(begun)
			}
		case <-late:
			r.t.Fatalf("%s: not sent in %s; the last was revision %d of %d: %+v",
				what, limit, r.last.Rev, r.c.Rev(), r.last.Err)
		}
	}
}

func nodesAre(names ...string) func(follow.Update) bool {
	return func(s follow.Update) bool {
		var have []string
		for _, n := range s.Nodes {
			have = append(have, n.Node)
		}
		return s.Err == nil && fmt.Sprint(have) == fmt.Sprint(names)
	}
}

func TestFollowMissesNothing(t *testing.T) {
	in := func(name string, f func(t *testing.T)) { t.Run(name, func(t *testing.T) { synctest.Test(t, f) }) }
	at := func(t *testing.T, took, want time.Duration) {
		t.Helper()
		if took > want {
			t.Errorf("it took %s, and it was there to be seen", took)
		}
	}
	in("a-change-is-sent-at-once", func(t *testing.T) {
		r := upToDate(t)
		if r.last.Begun.IsZero() || !r.last.Whole {
			t.Errorf("a list says when it was begun: %v, and is whole", r.last.Begun)
		}
		time.Sleep(time.Second)
		r.w.join("c")
		at(t, r.until("c", time.Minute, nodesAre("a", "b", "c")), 0)
		if !r.last.Begun.IsZero() {
			t.Error("what a watch sent is no read of now")
		}
		r.w.expire("a")
		at(t, r.until("a is gone", time.Minute, nodesAre("b", "c")), 0)
	})
	in("between-list-and-watch", func(t *testing.T) {
		first := true
		r := followed(t, follow.ScopeAll, func(w *storedJob) {
			if first {
				first = false
				w.join("c")
			}
		})
		defer r.end()
		at(t, r.until("c", time.Minute, nodesAre("a", "b", "c")), 0)
	})
	in("compacted", func(t *testing.T) {
		r := upToDate(t)
		synctest.Wait()
		r.cl.Deaf(true)
		r.w.expire("b")
		r.w.join("c")
		r.c.Compact(r.c.Rev())
		r.cl.Deaf(false)
		at(t, r.until("b is gone, c is there", time.Minute, nodesAre("a", "c")), time.Second)
	})
	in("deaf", func(t *testing.T) {
		r := upToDate(t)
		r.cl.Deaf(true)
		r.w.join("c")
		at(t, r.until("c", time.Hour, nodesAre("a", "b", "c")), 31*time.Second)
	})
	in("away", func(t *testing.T) {
		r := upToDate(t)
		r.c.Down()
		r.until("an error", time.Minute, func(s follow.Update) bool { return s.Err != nil })
		r.c.Up()
		r.w.join("c")
		at(t, r.until("c", time.Hour, nodesAre("a", "b", "c")), 31*time.Second)
	})
	in("another-cluster", func(t *testing.T) {
		r := upToDate(t)
		r.c.Wipe()
		at(t, r.until("no job", time.Hour,
			func(s follow.Update) bool { return s.Err == nil && s.Job == nil }),
			31*time.Second)
	})
	in("another-cluster-at-the-same-revisions", func(t *testing.T) {
		r := upToDate(t)
		other := memory.New()
		w := newStoredJob(t, other.Client("writer"), "x").create(2)
		w.lives = 10
		w.join("a", "b").run("a", "b")
		if was, is := r.last.Nodes[0], w.nodes["a"]; was.Rev != is.Rev || was.Incarnation == is.Incarnation {
			t.Fatalf("%s at revision %d, %s at %d", was.Incarnation, was.Rev, is.Incarnation, is.Rev)
		}
		r.c.Restore(other.Backup())
		r.until("its nodes", time.Hour, func(s follow.Update) bool {
			return s.Err == nil && s.Nodes[0].Incarnation == w.nodes["a"].Incarnation
		})
	})
	in("slow-reader", func(t *testing.T) {
		r := followed(t, follow.ScopeAll, nil)
		defer r.end()
		time.Sleep(time.Second)
		for i := range 100 {
			r.w.put(r.w.Job.Progress(), schema.Encode(rendezvous.Progress{Step: new(int64(i))}))
			synctest.Wait()
		}
		sent := 0
		r.until("the last of a hundred", time.Minute,
			func(s follow.Update) bool { sent++; return s.Progress != nil && *s.Progress.Step == 99 })
		if sent > 2 {
			t.Errorf("it was sent %d times: the latest wins", sent)
		}
		if r.last.Begun.IsZero() {
			t.Error("the read that was replaced before it was taken is part of what replaced it")
		}
	})
	in("own", func(t *testing.T) {
		r := followed(t, follow.ScopeOwn, nil)
		defer r.end()
		r.until("the list", time.Second, nodesAre("b"))
		if r.last.Whole || r.last.World == nil || r.last.World.Generation != 1 {
			t.Errorf("%+v", r.last.Snapshot)
		}
		r.w.join("c")
		r.w.hold()
		waits := func(s follow.Update) bool { return s.World.Phase == rendezvous.Waiting }
		at(t, r.until("the world waits", time.Minute, waits), 0)
		r.w.expire("b")
		at(t, r.until("it lost its registration", time.Minute, nodesAre()), 0)
	})
	in("ends", func(t *testing.T) {
		r := followed(t, follow.ScopeAll, nil)
		r.end()
		for range r.seen {
		}
	})
}

// After any faults, the reader gets the state of the store within half a minute.
func TestFollowOverFaults(t *testing.T) {
	for seed := range uint64(50) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 3))
				r := followed(t, follow.Scope(rng.IntN(2)), nil)
				defer r.end()
				for range 40 {
					switch rng.IntN(9) {
					case 0:
						r.cl.Deaf(rng.IntN(2) == 0)
					case 1:
						r.cl.Cut(rng.IntN(2) == 0)
					case 2:
						r.c.Compact(r.c.Rev() - rng.Int64N(5))
					case 3:
						r.c.Down()
						r.c.Up()
					case 4:
						r.cl.Fates(memory.Random(rand.New(rand.NewPCG(seed, rng.Uint64())), 0.3, 0.3,
							2*time.Second))
					case 5:
						time.Sleep(time.Duration(rng.IntN(5000)) * time.Millisecond)
					default:
						node := string(rune('a' + rng.IntN(4)))
						life := membership.Incarnation(fmt.Sprint(rng.IntN(9)))
						ref := membership.Ref{Node: node, Incarnation: life}
						n := membership.Node{Ref: ref, Attempt: 1, Slots: 1}
						write := store.Put("/elastic/v1/x/nodes/"+node, schema.Encode(n))
						if rng.IntN(3) == 0 {
							write = store.Delete(write.Key)
						}
						if _, err := r.w.Store.Txn(t.Context(),
							store.Txn{Then: []store.Write{write}}); err != nil {
							t.Fatal(err)
						}
					}
				}
				r.cl.Deaf(false)
				r.cl.Cut(false)
				r.cl.Fates(nil)
				want := r.w.see()
				r.until("all that there is", 40*time.Second, func(s follow.Update) bool {
					if s.Err != nil {
						return false
					}
					nodes := want.Nodes
					if !s.Whole {
						nodes = nil
						if n := want.Node("b"); n != nil {
							nodes = append(nodes, *n)
						}
					}
					return fmt.Sprint(s.Nodes) == fmt.Sprint(nodes) && s.World.Rev == want.World.Rev
				})
			})
		})
	}
}

// hiding does not answer a read of the members of a large world, once.
type hiding struct {
	store.Store
	plans string
	hid   *bool
}

func (h hiding) Get(ctx context.Context, key, end string) (store.Read, error) {
	if strings.HasPrefix(key, h.plans) && !*h.hid {
		*h.hid = true
		return store.Read{}, context.DeadlineExceeded
	}
	return h.Store.Get(ctx, key, end)
}

// The members of a large World are read separately. If that read fails, it is repeated at once and
// not only with the next list, which may be half a minute later: all others would wait for this
// node at the barrier.
func TestFollowReadsMembersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStoredJob(t, memory.New().Client("writer"), "x").create(150).crowd(150)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		hid := false
		seen := follow.Reader{Store: hiding{w.Store, w.Job.AllPlans(), &hid}, Job: "x", Node: "n00007",
			Members: new(follow.MemberCache)}.Follow(ctx, follow.ScopeOwn)
		<-seen // the list
		time.Sleep(time.Second)
		var marks plan.Observed
		s := w.see()
		_, err := w.Propose(t.Context(), s, w.me(), w.step(s, &marks, nil).(plan.Propose))
		w.must(err)
		begun := time.Now()
		for x := range seen {
			if x.World != nil && len(x.World.Members) == 150 {
				break
			}
		}
		if took := time.Since(begun); !hid || took > time.Second {
			t.Errorf("the world was sent after %s (hidden: %v)", took, hid)
		}
	})
}
