package memory_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// bubble runs a test with a cluster and two clients in a synctest bubble.
func bubble(t *testing.T, test func(t *testing.T, c *memory.Cluster, a, b *memory.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := memory.New()
		test(t, c, c.Client("a"), c.Client("b"))
	})
}

func put(k, v string) store.Txn { return store.Txn{Then: []store.Write{store.Put(k, []byte(v))}} }

func value(t *testing.T, s store.Store, k string) string {
	t.Helper()
	r, err := s.Get(t.Context(), k, "")
	if err != nil {
		t.Fatal(err)
	}
	if r.One() == nil {
		return "absent"
	}
	return string(r.One().Value)
}

// unknown fails unless err says that the result is unknown, and it came after want.
func unknown(t *testing.T, err error, took, want time.Duration) {
	t.Helper()
	if err == nil || store.Refused(err) || errors.Is(err, store.ErrLeaseLost) || took != want {
		t.Errorf("%v after %v, want an unknown result after %v", err, took, want)
	}
}

func TestFates(t *testing.T) {
	for _, c := range []struct {
		name         string
		fate         memory.Fate
		known        bool
		soon, at3s   string
		afterRelease string
	}{
		{"good", memory.Fate{}, true, "1", "1", "1"},
		{"lost", memory.Fate{Lost: true}, false, "absent", "absent", "absent"},
		{"mute", memory.Fate{Mute: true}, false, "1", "1", "1"},
		{"a little late", memory.Fate{Delay: time.Second}, true, "absent", "1", "1"},
		{"late", memory.Fate{Delay: 2500 * time.Millisecond}, false, "absent", "1", "1"},
		{"held", memory.Fate{Held: true}, false, "absent", "absent", "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, _ *memory.Cluster, a, b *memory.Client) {
				a.Fates(func(op memory.Op) memory.Fate {
					if op.Kind != memory.Txn || op.Txn.Then[0].Key != "/k" {
						t.Errorf("the hook was shown %+v", op)
					}
					return c.fate
				})
				var err error
				done := make(chan bool)
				go func() { _, err = a.Txn(t.Context(), put("/k", "1")); close(done) }()
				synctest.Wait()
				if v := value(t, b, "/k"); v != c.soon {
					t.Errorf("at once: %s, want %s", v, c.soon)
				}
				time.Sleep(3 * time.Second)
				<-done
				if (err == nil) != c.known {
					t.Errorf("result %v", err)
				}
				if v := value(t, b, "/k"); v != c.at3s {
					t.Errorf("after 3 s: %s, want %s", v, c.at3s)
				}
				a.Release()
				if v := value(t, b, "/k"); v != c.afterRelease {
					t.Errorf("after Release: %s, want %s", v, c.afterRelease)
				}
			})
		})
	}
}

func TestCut(t *testing.T) {
	bubble(t, func(t *testing.T, c *memory.Cluster, a, b *memory.Client) {
		l, ttl, _ := a.Grant(t.Context(), 3*time.Second)
		w := a.Watch(t.Context(), "/", "0", 1)
		a.Cut(true)
		start := time.Now()
		_, err := a.Txn(t.Context(), put("/k", "cut"))
		unknown(t, err, time.Since(start), 2*time.Second)
		start = time.Now()
		unknown(t, a.Renew(t.Context(), l), time.Since(start), 700*time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start = time.Now()
		_, err = a.Get(ctx, "/k", "")
		unknown(t, err, time.Since(start), 100*time.Millisecond)

		b.Txn(t.Context(), put("/k", "1"))
		time.Sleep(ttl)
		select {
		case n := <-w:
			t.Errorf("a cut watch sent %+v", n)
		default:
		}
		a.Cut(false)
		if n := <-w; len(n.Events) != 1 || string(n.Events[0].Value) != "1" {
			t.Errorf("after the cut: %+v", n)
		}
		if err := a.Renew(t.Context(), l); !errors.Is(err, store.ErrLeaseLost) {
			t.Errorf("renewal after the lease ran out: %v", err)
		}

		a.Cut(true)
		b.Txn(t.Context(), put("/k", "2"))
		b.Txn(t.Context(), put("/k", "3"))
		c.Compact(c.Rev())
		a.Cut(false)
		if n := <-w; !errors.Is(n.Err, store.ErrCompacted) {
			t.Errorf("after compaction during a cut: %+v", n)
		}
	})
}

func TestDeaf(t *testing.T) {
	bubble(t, func(t *testing.T, _ *memory.Cluster, a, b *memory.Client) {
		w := a.Watch(t.Context(), "/k", "", 1)
		a.Deaf(true)
		a.Txn(t.Context(), put("/k", "1"))
		a.Txn(t.Context(), put("/k", "2"))
		new := a.Watch(t.Context(), "/k", "", 1)
		time.Sleep(time.Hour)
		select {
		case n := <-w:
			t.Errorf("a deaf watch sent %+v", n)
		case n := <-new:
			t.Errorf("a new one sent %+v", n)
		default:
		}
		a.Deaf(false)
		for _, w := range []<-chan store.Change{w, new} {
			for _, want := range []string{"1", "2"} {
				if n := <-w; string(n.Events[0].Value) != want {
					t.Errorf("late: %+v, want %s", n, want)
				}
			}
		}
	})
}

// Requests of a stopped process arrive when it continues.
func TestStop(t *testing.T) {
	bubble(t, func(t *testing.T, _ *memory.Cluster, a, b *memory.Client) {
		w := a.Watch(t.Context(), "/k", "", 1)
		a.Stop()
		var res store.TxnResult
		var err error
		done := make(chan bool)
		go func() { res, err = a.Txn(t.Context(), put("/k", "late")); close(done) }()
		time.Sleep(time.Hour)
		b.Txn(t.Context(), put("/k", "early"))
		select {
		case <-done:
			t.Fatalf("a stopped process got %+v, %v", res, err)
		case n := <-w:
			t.Fatalf("a stopped process was sent %+v", n)
		default:
		}
		a.Continue()
		<-done
		if err != nil || value(t, b, "/k") != "late" {
			t.Errorf("%v, value %s", err, value(t, b, "/k"))
		}
		for _, want := range []string{"early", "late"} {
			if n := <-w; string(n.Events[0].Value) != want {
				t.Errorf("sent %+v, want %s", n, want)
			}
		}

		// An answer under way waits as well, and the request was applied.
		a.Fates(func(memory.Op) memory.Fate { return memory.Fate{Delay: time.Second} })
		done = make(chan bool)
		go func() { res, err = a.Txn(t.Context(), put("/k", "sent")); close(done) }()
		synctest.Wait()
		a.Stop()
		time.Sleep(time.Minute)
		if value(t, b, "/k") != "sent" {
			t.Error("a request that was sent did not arrive")
		}
		select {
		case <-done:
			t.Error("a stopped process got its answer")
		default:
		}
		a.Continue()
		<-done
	})
}

// A frozen etcd revokes the leases of healthy nodes when it thaws. One that was killed extends them
// to their full duration.
func TestFreezeAndDown(t *testing.T) {
	bubble(t, func(t *testing.T, c *memory.Cluster, a, b *memory.Client) {
		l, ttl, _ := a.Grant(t.Context(), 3*time.Second)
		a.Txn(t.Context(), store.Txn{Then: []store.Write{store.PutLeased("/node", []byte("1"), l)}})

		c.Down()
		_, err := a.Txn(t.Context(), put("/k", "down"))
		unknown(t, err, 0, 0)
		if !errors.Is(err, memory.ErrDown) {
			t.Error(err)
		}
		time.Sleep(10 * ttl)
		c.Up()
		time.Sleep(ttl - time.Millisecond)
		if err := a.Renew(t.Context(), l); err != nil {
			t.Errorf("renewal after a restart: %v", err)
		}

		c.Freeze()
		start := time.Now()
		_, err = a.Txn(t.Context(), put("/k", "frozen"))
		unknown(t, err, time.Since(start), 2*time.Second)
		start = time.Now()
		unknown(t, a.Renew(t.Context(), l), time.Since(start), 700*time.Millisecond)
		time.Sleep(ttl)
		w := b.Watch(t.Context(), "/", "0", 1)
		time.Sleep(time.Second)
		select {
		case n := <-w:
			t.Errorf("a frozen cluster sent %+v", n)
		default:
		}
		c.Thaw()
		if v := value(t, b, "/node"); v != "absent" {
			t.Errorf("the lease outlived the freeze")
		}
		if v := value(t, b, "/k"); v != "frozen" {
			t.Errorf("what waited was not applied: %s", v)
		}
		if err := a.Renew(t.Context(), l); !errors.Is(err, store.ErrLeaseLost) {
			t.Errorf("renewal after a freeze: %v", err)
		}
		var sent []string
		for len(sent) < 3 {
			for _, e := range (<-w).Events {
				sent = append(sent, fmt.Sprint(e.Key, e.Deleted))
			}
		}
		if fmt.Sprint(sent) != "[/nodefalse /nodetrue /kfalse]" {
			t.Errorf("sent %v", sent)
		}
	})
}

func TestWipeAndRestore(t *testing.T) {
	bubble(t, func(t *testing.T, c *memory.Cluster, a, b *memory.Client) {
		l, ttl, _ := a.Grant(t.Context(), 3*time.Second)
		a.Txn(t.Context(), store.Txn{Then: []store.Write{store.PutLeased("/node", []byte("1"), l)}})
		a.Txn(t.Context(), put("/k", "1"))
		was, _ := a.Get(t.Context(), "/", "0")
		backup := c.Backup()
		a.Txn(t.Context(), put("/k", "2"))
		w := a.Watch(t.Context(), "/", "0", c.Rev()+1)

		c.Wipe()
		if n := <-w; !errors.Is(n.Err, memory.ErrOtherCluster) {
			t.Errorf("sent %+v, want ErrOtherCluster", n)
		}
		if _, open := <-w; open {
			t.Error("the watch goes on")
		}
		r, _ := a.Get(t.Context(), "/", "0")
		if r.Rev != 1 || len(r.Entries) != 0 || r.Cluster == was.Cluster {
			t.Errorf("after a wipe: %+v", r)
		}
		if err := a.Renew(t.Context(), l); !errors.Is(err, store.ErrLeaseLost) {
			t.Error(err)
		}

		c.Restore(backup)
		back, _ := a.Get(t.Context(), "/", "0")
		if back.Rev != was.Rev || len(back.Entries) != 2 || back.Cluster == was.Cluster ||
			back.Cluster == r.Cluster {
			t.Errorf("restored %+v, want %+v in a third cluster", back, was)
		}
		if n := <-a.Watch(t.Context(), "/", "0", 1); !errors.Is(n.Err, store.ErrCompacted) {
			t.Errorf("watch of the time before: %+v", n)
		}
		w = b.Watch(t.Context(), "/", "0", back.Rev+1)
		time.Sleep(ttl)
		for n := range w {
			if len(n.Events) > 0 {
				if !n.Events[0].Deleted || n.Events[0].Key != "/node" || n.Rev != back.Rev+1 {
					t.Errorf("sent %+v, want the end of a restored lease", n)
				}
				break
			}
		}
	})
}

func TestFull(t *testing.T) {
	bubble(t, func(t *testing.T, c *memory.Cluster, a, _ *memory.Client) {
		l, _, _ := a.Grant(t.Context(), time.Minute)
		a.Txn(t.Context(), put("/k", "1"))
		c.Full(true)
		_, err := a.Txn(t.Context(), put("/k", "2"))
		_, _, gerr := a.Grant(t.Context(), time.Minute)
		for _, err := range []error{err, gerr} {
			if !errors.Is(err, memory.ErrNoSpace) || store.Refused(err) {
				t.Errorf("full: %v, refused: %v", err, store.Refused(err))
			}
		}
		if err := a.Renew(t.Context(), l); err != nil {
			t.Error(err)
		}
		if r, err := a.Txn(t.Context(), store.Txn{Then: []store.Write{store.Delete("/k")}}); err != nil || !r.OK {
			t.Error(r, err)
		}
		c.Full(false)
		if _, err := a.Txn(t.Context(), put("/k", "3")); err != nil {
			t.Error(err)
		}
	})
}

// Rivals count with compare-and-swap on a bad connection. Every success counts once, however often
// its request was sent.
func TestCountingOnABadLine(t *testing.T) {
	for seed := range uint64(20) {
		bubble(t, func(t *testing.T, c *memory.Cluster, a, b *memory.Client) {
			var wg sync.WaitGroup
			var mu sync.Mutex
			won := 0
			for i, s := range []*memory.Client{a, b, c.Client("c")} {
				rng := rand.New(rand.NewPCG(seed, uint64(i)))
				s.Fates(memory.Random(rng, 0.3, 0.3, 10*time.Second))
				wg.Go(func() {
					for k := range 10 {
						r, err := s.Get(t.Context(), "/n", "")
						if err != nil {
							continue
						}
						n, rev := 0, int64(0)
						if e := r.One(); e != nil {
							fmt.Sscanf(string(e.Value), "%d", &n)
							rev = e.Rev
						}
						_, err = store.Send(t.Context(), s, store.Request{
							If: []store.Guard{store.Unchanged("/n", rev)},
							Then: []store.Write{
								store.Put("/n", fmt.Appendf(nil, "%d by %d.%d", n+1, i, k)),
								store.Put(fmt.Sprintf("/won/%d.%d", i, k), []byte(strconv.Itoa(n+1)))},
						})
						switch {
						case err == nil:
							mu.Lock()
							won++
							mu.Unlock()
						case !errors.Is(err, store.ErrMoved):
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			time.Sleep(time.Minute) // for what is still under way
			god := c.Client("god")
			all, _ := god.Get(t.Context(), "/won/", store.End("/won/"))
			var n int
			fmt.Sscanf(value(t, god, "/n"), "%d", &n)
			// A success that was overwritten before its answer was heard is known as ErrMoved.
			if n != len(all.Entries) || won > n || won == 0 {
				t.Errorf("seed %d: counted to %d with %d successes, %d of them known",
					seed, n, len(all.Entries), won)
			}
			for _, e := range all.Entries {
				if e.Rev != e.Made {
					t.Errorf("seed %d: %s was applied twice", seed, e.Key)
				}
			}
		})
	}
}

func TestTally(t *testing.T) {
	bubble(t, func(t *testing.T, _ *memory.Cluster, a, b *memory.Client) {
		var n memory.Tally
		s := memory.Count(a, &n)
		ctx, cancel := context.WithCancel(t.Context())
		w := s.Watch(ctx, "/", "0", 1)
		s.Txn(ctx, put("/k", "four"))
		s.Txn(ctx, store.Txn{If: []store.Guard{store.Absent("/k")}, Then: put("/k", "five").Then, Else: "/k"})
		s.Get(ctx, "/", "0")
		l, _, _ := s.Grant(ctx, time.Minute)
		s.Renew(ctx, l)
		s.Revoke(ctx, l)
		<-w
		cancel()
		for range w {
		}
		got := []int64{n.Requests(), n.Txns.Load(), n.Writes.Load(), n.Entries.Load(), n.Events.Load(),
			n.Sent.Load(), n.Received.Load()}
		if want := []int64{7, 2, 1, 1, 1, 14, 18}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("counted %v, want %v", got, want)
		}
	})
}

// BenchmarkFleet is a thousand clients that join and see one another, which a
// simulation does over and over.
func BenchmarkFleet(b *testing.B) {
	for b.Loop() {
		c := memory.New()
		ctx, cancel := context.WithCancel(b.Context())
		var wg sync.WaitGroup
		for i := range 1000 {
			s := c.Client("n")
			world := s.Watch(ctx, "/world", "", 1)
			if _, err := s.Txn(ctx, put(fmt.Sprintf("/nodes/%04d", i), "node")); err != nil {
				b.Fatal(err)
			}
			wg.Go(func() {
				<-world
				for range world {
				}
			})
		}
		if _, err := c.Client("keeper").Txn(ctx, put("/world", "1")); err != nil {
			b.Fatal(err)
		}
		cancel()
		wg.Wait()
	}
}
