package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// damages are what is written in place of a record.
var damages = []struct {
	name string
	make func(was []byte, r *rand.Rand) []byte
}{
	{"random", func(_ []byte, r *rand.Rand) []byte {
		b := make([]byte, 1+r.IntN(200))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}},
	{"truncated", func(was []byte, r *rand.Rand) []byte { return was[:r.IntN(len(was)+1)] }},
	{"oversized", func(was []byte, _ *rand.Rand) []byte {
		return fmt.Appendf(nil, `{"format":1,"record":{"uid":"%s","x":%s}}`,
			strings.Repeat("x", 1<<20), quoted(was))
	}},
	{"wrongly typed", func(was []byte, r *rand.Rand) []byte { return twisted(was, r) }},
	{"of a future format", func(was []byte, _ *rand.Rand) []byte {
		return fmt.Appendf(nil, `{"format":99,"record":{"of":%s}}`, quoted(was))
	}},
}

func quoted(b []byte) []byte {
	q, err := json.Marshal(string(b))
	if err != nil {
		panic(err) // a string always has a form in JSON
	}
	return q
}

// twisted is a record in which one value, at a random place, has another type or an impossible
// size.
func twisted(was []byte, r *rand.Rand) []byte {
	var v any
	if json.Unmarshal(was, &v) != nil {
		return append([]byte("../../\x1b[2J/"), was...) // a fence is no JSON
	}
	n := 0
	walk(v, func(any) any { n++; return nil }, false)
	at := r.IntN(n)
	v = walk(v, func(leaf any) any {
		if at--; at != -1 {
			return leaf
		}
		wrong := []any{-1e12, 1e300, "../../x\x1b[2J", []any{[]any{}}, map[string]any{"x": 1}, true, nil}
		return wrong[r.IntN(len(wrong))]
	}, true)
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// walk calls f with each leaf in a fixed order; with change the leaf becomes what f returns.
func walk(v any, f func(any) any, change bool) any {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(keysIn(v)) {
			if x := walk(v[k], f, change); change {
				v[k] = x
			}
		}
		return v
	case []any:
		for i := range v {
			if x := walk(v[i], f, change); change {
				v[i] = x
			}
		}
		return v
	}
	return f(v)
}

func keysIn(m map[string]any) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// vandal writes garbage into the store of a sandbox, and restores the records.
type vandal struct {
	*sandbox
	client *clientv3.Client
	random *rand.Rand
}

func newVandal(t *testing.T, seed uint64) *vandal {
	t.Helper()
	v := &vandal{sandbox: newSandbox(t), random: rand.New(rand.NewPCG(seed, seed))}
	v.daemons(1)
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{v.at}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	v.client = c
	t.Cleanup(v.story)
	return v
}

// story returns the content of the store after a failure.
func (v *vandal) story() {
	if !v.t.Failed() {
		return
	}
	r, err := v.client.Get(context.Background(), "/elastic/v1/x/", clientv3.WithPrefix())
	if err != nil {
		v.t.Log(err)
		return
	}
	for _, kv := range r.Kvs {
		if !strings.Contains(string(kv.Key), "/events/") {
			v.t.Logf("%q (lease %x, revision %d) = %.300q", kv.Key, kv.Lease, kv.ModRevision, kv.Value)
		}
	}
}

// keys returns the keys that are in the store now. Of events and checkpoints, which are many, it
// returns two each.
func (v *vandal) keys() (all []*mvccpb.KeyValue, err error) {
	ctx, cancel := context.WithTimeout(v.t.Context(), limit)
	defer cancel()
	r, err := v.client.Get(ctx, "/elastic/", clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	many := map[string]int{}
	for _, kv := range r.Kvs {
		if dir := path.Dir(string(kv.Key)); many[dir] < 2 || strings.Count(dir, "/") < 4 {
			many[dir]++
			all = append(all, kv)
		}
	}
	return all, nil
}

// strike writes value in place of a record, with its lease or without, and returns a function that
// restores the record. That function leaves alone what the job itself wrote or deleted meanwhile.
func (v *vandal) strike(kv *mvccpb.KeyValue, value []byte) (restore func() error, err error) {
	key := string(kv.Key)
	var lease []clientv3.OpOption
	if kv.Lease != 0 && v.random.IntN(2) == 0 {
		lease = append(lease, clientv3.WithLease(clientv3.LeaseID(kv.Lease)))
	}
	put, err := v.change(key, kv.ModRevision, clientv3.OpPut(key, string(value), lease...))
	return func() error {
		if put == 0 {
			return nil
		}
		was := clientv3.OpPut(key, string(kv.Value), clientv3.WithLease(clientv3.LeaseID(kv.Lease)))
		done, err := v.change(key, put, was)
		if done == 0 && err == nil { // its lease has ended, and the record with it
			_, err = v.change(key, put, clientv3.OpDelete(key))
		}
		return err
	}, err
}

// change changes a key whose revision is rev, and returns the new revision. It returns 0 if the key
// was not changed.
func (v *vandal) change(key string, rev int64, op clientv3.Op) (int64, error) {
	ctx, cancel := context.WithTimeout(v.t.Context(), limit)
	defer cancel()
	r, err := v.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", rev)).Then(op).Commit()
	switch {
	case rpctypes.Error(err) == rpctypes.ErrLeaseNotFound:
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("change %q: %w", key, err)
	case !r.Succeeded:
		return 0, nil
	}
	return r.Header.Revision, nil
}

// storm writes garbage into random keys, several at a time, until f has returned.
func (v *vandal) storm(f func()) {
	v.t.Helper()
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		calm := time.NewTicker(100 * time.Millisecond) // otherwise no agent would ever read the job
		defer calm.Stop()
		for ; ; <-calm.C {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if err := v.gust(); err != nil {
				stopped <- err
				return
			}
		}
	}()
	f()
	close(stop)
	if err := <-stopped; err != nil {
		v.t.Fatal(err)
	}
}

// gust writes garbage into three keys, and restores them.
func (v *vandal) gust() error {
	all, err := v.keys()
	if err != nil {
		return err
	}
	var back []func() error
	for _, i := range v.random.Perm(len(all))[:3] {
		restore, err := v.strike(all[i], damages[v.random.IntN(len(damages))].make(all[i].Value, v.random))
		if err != nil {
			return err
		}
		back = append(back, restore)
	}
	for _, restore := range back {
		if err := restore(); err != nil {
			return err
		}
	}
	return nil
}

// asks runs a command. It must do its work, or report that the job cannot be read.
func (v *vandal) asks(key, damage string, args ...string) {
	v.t.Helper()
	r := v.command(args...)
	if strings.ContainsFunc(r.stdout+r.stderr,
		func(c rune) bool { return c < ' ' && c != '\n' && c != '\t' }) {
		v.t.Errorf("%q is %s: elastic %s says %q%q", key, damage, strings.Join(args, " "), r.stdout, r.stderr)
	}
	about := "/elastic/v1/none/"
	if len(args) > 1 {
		about = "/elastic/v1/" + args[len(args)-1] + "/"
	}
	reported := strings.Contains(r.stderr, "[E-JOB-UNREADABLE]") && strings.HasPrefix(key, about)
	if r.status != 0 && !reported && !strings.Contains(r.stderr, "[E-JOB-LIVE]") {
		v.t.Errorf("%q is %s: elastic %s ended with %d: %q",
			key, damage, strings.Join(args, " "), r.status, r.stderr)
	}
}

// strange are keys that no version of elastic writes.
var strange = []string{"x/", "x/nodes/", "x/nodes/../../y", "x/nodes/a/b/c", "x/ready/zzz/a",
	"x/ready/000000000001/\x1b[2J", "x/exit/1/a",
	"x/plan/p/zzzz", "x/ckpt/n/-1", "x/ckpt/n/999999999999999999999999", "x/suspects/a", "x/events/\xff",
	"x/world/world", "x/what", "x/held/\n", "x/doing/" + strings.Repeat("d", 300), "/job", "../job",
	"\x1b]0;title\x07/job", strings.Repeat("j", 300) + "/job", "noslash"}

// asked are the commands that must answer meanwhile.
var asked = [][]string{{"jobs"}, {"status", "x"}, {"nodes", "x"}, {"events", "x"}, {"ckpt", "ls", "x"},
	{"status", "y"},
	{"explain", "x"}, {"goodput", "x"}, {"events", "y"}, {"scale", "--np=3", "x"}, {"rm", "--yes", "x"}}

// everyKey damages each key of the store in each way, one after the other, and asks some command
// meanwhile.
func (v *vandal) everyKey() (n int) {
	v.t.Helper()
	all, err := v.keys()
	if err != nil {
		v.t.Fatal(err)
	}
	for _, kv := range all {
		for _, d := range damages {
			now, err := v.client.Get(v.t.Context(), string(kv.Key))
			if err != nil {
				v.t.Fatal(err)
			}
			if len(now.Kvs) == 0 {
				continue // the job deleted it meanwhile
			}
			restore, err := v.strike(now.Kvs[0], d.make(now.Kvs[0].Value, v.random))
			if err != nil {
				v.t.Fatal(err)
			}
			if n++; n%4 == 0 || soak(v.t) > 1 {
				v.asks(string(kv.Key), d.name, asked[n/4%len(asked)]...)
			}
			if err := restore(); err != nil {
				v.t.Fatal(err)
			}
		}
	}
	return n
}

// strangeKeys writes keys that no version writes, asks, and deletes them.
func (v *vandal) strangeKeys() {
	v.t.Helper()
	for _, key := range strange {
		if _, err := v.client.Put(v.t.Context(), "/elastic/v1/"+key, "garbage"); err != nil {
			v.t.Fatal(err)
		}
	}
	for _, args := range asked {
		v.asks("/elastic/v1/x/", "there with others that no agent writes", args...)
	}
	for _, key := range strange {
		if _, err := v.client.Delete(v.t.Context(), "/elastic/v1/"+key); err != nil {
			v.t.Fatal(err)
		}
	}
}

// goesOn waits until the job is as it should be, and saves.
func (v *vandal) goesOn(generation, size int) {
	v.t.Helper()
	v.running("x", generation, size)
	before := fmt.Sprint(v.object("status", "x")["checkpoint"])
	until(v.t, "another checkpoint", func() error {
		if now := fmt.Sprint(v.object("status", "x")["checkpoint"]); now == before {
			return fmt.Errorf("it is still %s", now)
		}
		return nil
	})
}

// Garbage is written into any key of the store: of a running job, of another job, or beside them.
// It restarts no worker and ends no agent, and every command answers. When the record is restored,
// the job goes on. A scale and a loss under garbage complete.
func TestGarbageInEveryKey(t *testing.T) {
	t.Parallel()
	v := newVandal(t, uint64(soak(t)))
	v.ends(v.run("--job-id=y", "--node=a", "true"), 0)
	agents, workers := map[string]*proc{}, map[string]int{}
	for _, name := range []string{"a", "b", "c"} {
		agents[name] = v.run("--np=2:3", "--job-id=x", "--node="+name, "--log-dir=log-"+name, "train",
			"--steps=1000000", "--step-sleep=50ms", "--save-every=500ms")
	}
	v.running("x", 1, 3)
	v.committed("x", 1)
	for name := range agents {
		for _, w := range v.workersOf(name, "elastic-demo") {
			workers[name] = w.pid
		}
	}
	t.Logf("garbage was written %d times", v.everyKey())
	v.strangeKeys()
	v.goesOn(1, 3)
	for name, pid := range workers {
		if !alive(pid) || len(workers) != 3 {
			t.Errorf("the worker of %s has ended, of %d", name, len(workers))
		}
	}
	for _, kind := range []string{"node_lost", "node_left", "worker_failed", "world_proposed"} {
		if n := len(kinds(v.events("x"), kind)); n != 0 && kind != "world_proposed" || n > 1 {
			t.Errorf("garbage alone made %d × %s", n, kind)
		}
	}

	v.storm(func() {
		until(t, "the job is scaled", func() error {
			_, err := v.try("scale", "x", "--np=2", "--detach")
			return err
		})
		time.Sleep(endure(t, 2*time.Second, 30*time.Second)) // of garbage while the job is at it
	})
	st := v.running("x", 2, 2)
	v.goesOn(2, 2)
	zero := st.World[0].Node
	v.storm(func() {
		if err := agents[zero].kill(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-agents[zero].done
		time.Sleep(endure(t, 2*time.Second, 30*time.Second)) // the others find out meanwhile
	})
	delete(agents, zero)
	v.goesOn(3, 2)
	for name, a := range agents {
		if status, gone := a.ended(); gone {
			t.Errorf("the agent of %s ended with %d", name, status)
		}
	}
	v.must("stop", "x")
	for _, a := range agents {
		v.ends(a, 93)
	}
}
