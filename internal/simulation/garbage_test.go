package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/store"
)

// damages are ways to damage a record. The fifth changes one of its values.
var damages = []func(was []byte, r *rand.Rand) []byte{
	func([]byte, *rand.Rand) []byte { return []byte("\x00garbage") },
	func(was []byte, r *rand.Rand) []byte { return was[:r.IntN(len(was)+1)] },
	func(was []byte, _ *rand.Rand) []byte {
		return fmt.Appendf(nil, `{"format":99,"record":{"was":%q}}`, was)
	},
	func(was []byte, _ *rand.Rand) []byte { return append(slices.Clone(was), strings.Repeat(" ", 5<<20)...) },
	twist,
}

// twist changes a random value of a record to another type or an impossible size.
func twist(was []byte, r *rand.Rand) []byte {
	var v any
	if json.Unmarshal(was, &v) != nil {
		return append([]byte("../"), was...) // a fence is no JSON
	}
	var set []func(any)
	var walk func(any, func(any))
	walk = func(v any, put func(any)) {
		switch v := v.(type) {
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				walk(v[k], func(x any) { v[k] = x })
			}
		case []any:
			for i := range v {
				walk(v[i], func(x any) { v[i] = x })
			}
		default:
			set = append(set, put)
		}
	}
	walk(v, func(any) {})
	if len(set) > 0 {
		wrong := []any{nil, -1e12, 1e300, "../../x", []any{}, map[string]any{}, true}
		set[r.IntN(len(set))](wrong[r.IntN(len(wrong))])
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// Every key of a job is damaged in every way for some seconds, with its lease and without. No
// worker of a running World ends, and afterwards the job can do everything that it could before.
func TestGarbageForSeconds(t *testing.T) {
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			s := newSim(t, "2:3", seed)
			s.form("a", "b", "c")
			random, client := rand.New(rand.NewPCG(seed, seed)), s.etcd.Client("outside")
			// on its lease or on none, unless the job has written the key since
			put := func(e store.Entry, value []byte) {
				lease := []store.Lease{0, e.Lease}[random.IntN(2)]
				_, err := client.Txn(t.Context(), store.Txn{If: []store.Guard{store.Unchanged(e.Key, e.Rev)},
					Then: []store.Write{store.PutLeased(e.Key, value, lease)}})
				if err != nil && !errors.Is(err, store.ErrLeaseLost) {
					t.Fatal(err)
				}
			}
			for _, e := range s.entries(s.job.Name.Prefix()) {
				if strings.HasPrefix(e.Key, s.job.Name.Events()) {
					continue
				}
				for i, damage := range damages {
					now := s.entry(e.Key)
					value := damage(now.Value, random)
					put(now, value)
					time.Sleep(s.between(10, 4000))
					struck := s.entry(e.Key)
					struck.Lease = now.Lease
					put(struck, now.Value)
					time.Sleep(s.between(10, 4000))
					if !s.running(1, 3)(s.snapshot()) {
						t.Errorf("damage %d of %s, %.300q: the workers stopped\n%s", i, e.Key, value, s.story())
						s.killAll()
						return
					}
				}
			}
			s.scale(2)
			s.until("generation 2 runs", 30*time.Second, s.running(2, 2))
			s.agents[0].kill()
			s.until("two run", 30*time.Second, func(x rendezvous.Snapshot) bool {
				return x.World.Generation > 2 && s.running(0, 2)(x)
			})
			s.killAll()
		})
	}
}

// A registration that an operator repaired without its lease would outlive its node. The node puts
// it on a lease again, so that its loss is found as usual.
func TestRegistrationOnAnotherLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, "2:3", 1)
		s.form("a", "b", "c")
		b := s.entry(s.job.Name.Node("b"))
		if _, err := s.etcd.Client("outside").
			Txn(t.Context(), store.Txn{Then: []store.Write{store.Put(b.Key, b.Value)}}); err != nil {
			t.Fatal(err)
		}
		s.until("it is on a lease", 10*time.Second,
			func(x rendezvous.Snapshot) bool { return s.entry(b.Key).Lease != 0 })
		s.until("no worker was disturbed", time.Second, s.running(1, 3))
		s.finish()
	})
}

// killAll ends all agents. It skips the checks of the history, because some Worlds in it are not
// theirs.
func (s *sim) killAll() {
	for _, a := range s.agents {
		a.kill()
		<-a.done
	}
}

// entry is one key as it is now.
func (s *sim) entry(key string) store.Entry {
	s.t.Helper()
	for _, e := range s.entries(key) {
		if e.Key == key {
			return e
		}
	}
	s.t.Fatalf("%s is gone\n%s", key, s.story())
	return store.Entry{}
}
