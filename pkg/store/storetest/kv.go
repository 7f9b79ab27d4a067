package storetest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/elasticd/elastic/pkg/store"
)

func testGet(h *harness) {
	if r := h.get(h.key("a"), ""); r.One() != nil || r.Rev < 1 || r.Cluster == 0 {
		h.Fatalf("read of an absent key: %+v", r)
	}
	made := h.put("a=1", "b=x")
	rev := h.put("a=2")
	r := h.get(h.key("a"), "")
	h.equal("entry", *r.One(), store.Entry{Key: h.key("a"), Value: []byte("2"), Rev: rev, Made: made - 1})
	if r.Rev != rev {
		h.Fatalf("read at revision %d, want %d", r.Rev, rev)
	}
	b, err := h.B.Get(h.Context(), h.key("a"), "")
	if err != nil {
		h.Fatal(err)
	}
	h.equal("read of the other client", b, r)
	buffer := []byte("2")
	h.write(store.Put(h.key("b"), buffer))
	buffer[0] = 'x' // the writer may use it again
	h.equal("keys", h.names(), []string{"a=2", "b=2"})
	h.write(store.Delete(h.key("a")))
	rev = h.put("a=3")
	if e := h.get(h.key("a"), "").One(); e.Made != rev {
		h.Fatalf("a key that was deleted is made at %d, want %d", e.Made, rev)
	}
}

func testRange(h *harness) {
	h.put("n/b=2", "n/a=1", "n0=end", "n=start", "n/a/x=deep", "n-=before")
	h.equal("all", h.names(), []string{"n=start", "n-=before", "n/a=1", "n/a/x=deep", "n/b=2", "n0=end"})
	var below []string
	for _, e := range h.get(h.key("n/"), store.End(h.key("n/"))).Entries {
		below = append(below, strings.TrimPrefix(e.Key, h.prefix))
	}
	h.equal("below n/", below, []string{"n/a", "n/a/x", "n/b"})
	h.equal("an empty range", h.get(h.key("x"), h.key("y")).Entries, []store.Entry(nil))
	h.equal("a range that ends before it begins", h.get(h.key("n0"), h.key("n")).Entries, []store.Entry(nil))
}

func testRanges(h *harness) {
	rev := h.put("n/c=3", "n/b=2", "n/a=1", "one=x", "other=y")
	n := store.Below(h.key("n/"))
	first := n
	first.Most = 2
	for what, c := range map[string]struct {
		ranges []store.Range
		want   []string
	}{
		"a key and a range": {[]store.Range{store.One(h.key("one")), n},
			[]string{"one", "n/a", "n/b", "n/c"}},
		"the first of a range": {[]store.Range{first, store.One(h.key("other"))},
			[]string{"n/a", "n/b", "other"}},
		"a key that is not there": {[]store.Range{store.One(h.key("none")), store.One(h.key("one"))},
			[]string{"one"}},
	} {
		r, err := h.A.GetRanges(h.Context(), c.ranges...)
		if err != nil {
			h.Fatal(err)
		}
		var keys []string
		for _, e := range r.Entries {
			keys = append(keys, strings.TrimPrefix(e.Key, h.prefix))
		}
		h.equal(what, keys, c.want)
		if r.Rev != rev || r.Cluster == 0 {
			h.Fatalf("%s: read at revision %d of cluster %d, want %d", what, r.Rev, r.Cluster, rev)
		}
	}
}

func testAtomic(h *harness) {
	h.put("old=1")
	rev := h.write(store.Put(h.key("a"), []byte("1")), store.Put(h.key("b"), []byte("2")),
		store.Delete(h.key("old")))
	r := h.all()
	h.equal("keys", h.names(), []string{"a=1", "b=2"})
	for _, e := range r.Entries {
		if e.Rev != rev || r.Rev != rev {
			h.Fatalf("%s has revision %d, read at %d, want %d", e.Key, e.Rev, r.Rev, rev)
		}
	}
}

func testNothing(h *harness) {
	rev := h.put("a=1")
	if got := h.write(store.Delete(h.key("absent"))); got != rev {
		h.Fatalf("a delete of nothing made revision %d after %d", got, rev)
	}
	if got := h.put("a=1"); got != rev+1 {
		h.Fatalf("a put of the same value made revision %d after %d", got, rev)
	}
}

func testGuards(h *harness) {
	first := h.put("n/a=1")
	last := h.put("n/b=2", "v=x")
	h.put("e=")
	n, none := h.key("n/"), h.key("none/")
	for _, c := range []struct {
		name  string
		guard store.Guard
		want  bool
	}{
		{"unchanged", store.Unchanged(h.key("n/a"), first), true},
		{"changed", store.Unchanged(h.key("n/a"), first-1), false},
		{"present key absent", store.Absent(h.key("n/a")), false},
		{"absent key absent", store.Absent(h.key("x")), true},
		{"absent key unchanged", store.Unchanged(h.key("x"), first), false},
		{"none newer", store.NoneNewer(n, last), true},
		{"one newer", store.NoneNewer(n, first), false},
		{"none newer than the newest", store.NoneNewer(n, last-1), true},
		{"none newer in nothing", store.NoneNewer(none, 0), true},
		{"below revision 0", store.Guard{Key: h.key("x"), What: store.RevBelow, Rev: 0}, false},
		{"none below", store.NoneBelow(none), true},
		{"some below", store.NoneBelow(n), false},
		{"every key has the revision", store.Guard{Key: n, End: store.End(n), What: store.RevIs,
			Rev: first}, false},
		{"value", store.Guard{Key: h.key("v"), What: store.ValueIs, Value: "x"}, true},
		{"part of a value", store.Guard{Key: h.key("v"), What: store.ValueIs, Value: ""}, false},
		{"longer value", store.Guard{Key: h.key("v"), What: store.ValueIs, Value: "xx"}, false},
		{"empty value", store.Guard{Key: h.key("e"), What: store.ValueIs, Value: ""}, true},
		{"value of an absent key", store.Guard{Key: h.key("x"), What: store.ValueIs, Value: ""}, false},
		{"value of an empty range",
			store.Guard{Key: none, End: store.End(none), What: store.ValueIs, Value: ""}, false},
		{"value of every key", store.Guard{Key: n, End: store.End(n), What: store.ValueIs, Value: "1"},
			false},
	} {
		got := h.txn(store.Txn{If: []store.Guard{c.guard},
			Then: []store.Write{store.Put(h.key("done"), []byte(c.name))}})
		if got.OK != c.want {
			h.Errorf("%s: %v, want %v", c.name, got.OK, c.want)
		}
	}
	got := h.txn(store.Txn{
		If:   []store.Guard{store.Absent(h.key("x")), store.Absent(h.key("v"))},
		Then: []store.Write{store.Put(h.key("both"), []byte("1"))},
	})
	if got.OK || h.get(h.key("both"), "").One() != nil {
		h.Error("one of two guards was enough")
	}
}

func testElse(h *harness) {
	rev := h.put("a=1")
	no := []store.Guard{store.Absent(h.key("a"))}
	w := []store.Write{store.Put(h.key("a"), []byte("2"))}
	got := h.txn(store.Txn{If: no, Then: w, Else: h.key("a")})
	h.equal("else", got, store.TxnResult{Rev: rev,
		Else: &store.Entry{Key: h.key("a"), Value: []byte("1"), Rev: rev, Made: rev}})
	h.equal("else of an absent key", h.txn(store.Txn{If: no, Then: w, Else: h.key("b")}),
		store.TxnResult{Rev: rev})
	h.equal("no else", h.txn(store.Txn{If: no, Then: w}), store.TxnResult{Rev: rev})
	h.equal("else not needed", h.txn(store.Txn{Then: w, Else: h.key("a")}),
		store.TxnResult{OK: true, Rev: rev + 1})
}

func testRefused(h *harness) {
	many := make([]store.Guard, store.MaxOps+1)
	writes := make([]store.Write, store.MaxOps+1)
	for i := range many {
		many[i] = store.Absent(h.key("x"))
		writes[i] = store.Put(h.key(fmt.Sprint(i)), []byte("1"))
	}
	a := store.Put(h.key("a"), []byte("1"))
	for name, bad := range map[string]store.Txn{
		"key twice":              {Then: []store.Write{a, a}},
		"put and delete":         {Then: []store.Write{a, store.Delete(h.key("a"))}},
		"put in a deleted range": {Then: []store.Write{store.DeleteRange(h.prefix, store.End(h.prefix)), a}},
		"too many guards":        {If: many, Then: []store.Write{a}},
		"too many writes":        {Then: writes},
		"no key":                 {Then: []store.Write{store.Put("", []byte("1"))}},
		"twice, behind a guard": {If: []store.Guard{store.Unchanged(h.key("a"), 1)},
			Then: []store.Write{a, a}},
	} {
		if _, err := h.A.Txn(h.Context(), bad); !store.Refused(err) {
			h.Errorf("%s: %v, want a refusal", name, err)
		}
	}
	h.equal("keys after refusals", h.names(), []string(nil))
	h.txn(store.Txn{If: many[1:], Then: writes[1:]}) // exactly as many as allowed
	h.write(store.DeleteRange(h.prefix, store.End(h.prefix)), store.Delete(h.key("1")))
}

func testDeleteRange(h *harness) {
	h.put("ready/1/a=", "ready/1/b=", "ready/2/a=", "ready=", "ready0=")
	h.write(store.DeleteRange(h.key("ready/"), h.key("ready/2")))
	h.equal("after the older half", h.names(), []string{"ready=", "ready/2/a=", "ready0="})
	h.write(store.DeleteRange(h.key("ready/"), store.End(h.key("ready/"))))
	h.equal("after all of it", h.names(), []string{"ready=", "ready0="})
}

func testLostLease(h *harness) {
	l, _ := h.grant(patience)
	if err := h.A.Revoke(h.Context(), l); err != nil {
		h.Fatal(err)
	}
	put := store.PutLeased(h.key("a"), []byte("1"), l)
	_, err := h.A.Txn(h.Context(), store.Txn{Then: []store.Write{store.Put(h.key("b"), []byte("1")), put}})
	if !store.Refused(err) || !errors.Is(err, store.ErrLeaseLost) {
		h.Fatalf("put on a lost lease: %v", err)
	}
	h.equal("keys", h.names(), []string(nil))
	h.put("x=1")
	if r := h.txn(store.Txn{If: []store.Guard{store.Absent(h.key("x"))}, Then: []store.Write{put}}); r.OK {
		h.Fatal("a guard that does not hold was ignored")
	}
}
