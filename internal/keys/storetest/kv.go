package storetest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/elasticd/elastic/internal/keys"
)

func testGet(h *harness) {
	if r := h.get(h.key("a"), ""); r.One() != nil || r.Rev < 1 || r.Cluster == 0 {
		h.Fatalf("read of an absent key: %+v", r)
	}
	made := h.put("a=1", "b=x")
	rev := h.put("a=2")
	r := h.get(h.key("a"), "")
	h.equal("entry", *r.One(), keys.Entry{Key: h.key("a"), Value: []byte("2"), Rev: rev, Made: made - 1})
	if r.Rev != rev {
		h.Fatalf("read at revision %d, want %d", r.Rev, rev)
	}
	b, err := h.B.Get(h.Context(), h.key("a"), "")
	if err != nil {
		h.Fatal(err)
	}
	h.equal("read of the other client", b, r)
	buffer := []byte("2")
	h.write(keys.Put(h.key("b"), buffer))
	buffer[0] = 'x' // the writer may use it again
	h.equal("keys", h.names(), []string{"a=2", "b=2"})
	h.write(keys.Delete(h.key("a")))
	rev = h.put("a=3")
	if e := h.get(h.key("a"), "").One(); e.Made != rev {
		h.Fatalf("a key that was deleted is made at %d, want %d", e.Made, rev)
	}
}

func testRange(h *harness) {
	h.put("n/b=2", "n/a=1", "n0=end", "n=start", "n/a/x=deep", "n-=before")
	h.equal("all", h.names(), []string{"n=start", "n-=before", "n/a=1", "n/a/x=deep", "n/b=2", "n0=end"})
	var below []string
	for _, e := range h.get(h.key("n/"), keys.End(h.key("n/"))).Entries {
		below = append(below, strings.TrimPrefix(e.Key, h.prefix))
	}
	h.equal("below n/", below, []string{"n/a", "n/a/x", "n/b"})
	h.equal("an empty range", h.get(h.key("x"), h.key("y")).Entries, []keys.Entry(nil))
	h.equal("a range that ends before it begins", h.get(h.key("n0"), h.key("n")).Entries, []keys.Entry(nil))
}

func testAtomic(h *harness) {
	h.put("old=1")
	rev := h.write(keys.Put(h.key("a"), []byte("1")), keys.Put(h.key("b"), []byte("2")), keys.Delete(h.key("old")))
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
	if got := h.write(keys.Delete(h.key("absent"))); got != rev {
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
		guard keys.Guard
		want  bool
	}{
		{"unchanged", keys.Unchanged(h.key("n/a"), first), true},
		{"changed", keys.Unchanged(h.key("n/a"), first-1), false},
		{"present key absent", keys.Absent(h.key("n/a")), false},
		{"absent key absent", keys.Absent(h.key("x")), true},
		{"absent key unchanged", keys.Unchanged(h.key("x"), first), false},
		{"none newer", keys.NoneNewer(n, last), true},
		{"one newer", keys.NoneNewer(n, first), false},
		{"none newer than the newest", keys.NoneNewer(n, last-1), true},
		{"none newer in nothing", keys.NoneNewer(none, 0), true},
		{"below revision 0", keys.Guard{Key: h.key("x"), What: keys.RevBelow, Rev: 0}, false},
		{"none below", keys.NoneBelow(none), true},
		{"some below", keys.NoneBelow(n), false},
		{"every key has the revision", keys.Guard{Key: n, End: keys.End(n), What: keys.RevIs, Rev: first}, false},
		{"value", keys.Guard{Key: h.key("v"), What: keys.ValueIs, Value: "x"}, true},
		{"part of a value", keys.Guard{Key: h.key("v"), What: keys.ValueIs, Value: ""}, false},
		{"longer value", keys.Guard{Key: h.key("v"), What: keys.ValueIs, Value: "xx"}, false},
		{"empty value", keys.Guard{Key: h.key("e"), What: keys.ValueIs, Value: ""}, true},
		{"value of an absent key", keys.Guard{Key: h.key("x"), What: keys.ValueIs, Value: ""}, false},
		{"value of an empty range", keys.Guard{Key: none, End: keys.End(none), What: keys.ValueIs, Value: ""}, false},
		{"value of every key", keys.Guard{Key: n, End: keys.End(n), What: keys.ValueIs, Value: "1"}, false},
	} {
		got := h.txn(keys.Txn{If: []keys.Guard{c.guard}, Then: []keys.Write{keys.Put(h.key("done"), []byte(c.name))}})
		if got.OK != c.want {
			h.Errorf("%s: %v, want %v", c.name, got.OK, c.want)
		}
	}
	got := h.txn(keys.Txn{
		If:   []keys.Guard{keys.Absent(h.key("x")), keys.Absent(h.key("v"))},
		Then: []keys.Write{keys.Put(h.key("both"), []byte("1"))},
	})
	if got.OK || h.get(h.key("both"), "").One() != nil {
		h.Error("one of two guards was enough")
	}
}

func testElse(h *harness) {
	rev := h.put("a=1")
	no := []keys.Guard{keys.Absent(h.key("a"))}
	w := []keys.Write{keys.Put(h.key("a"), []byte("2"))}
	got := h.txn(keys.Txn{If: no, Then: w, Else: h.key("a")})
	h.equal("else", got, keys.TxnResult{Rev: rev, Else: &keys.Entry{Key: h.key("a"), Value: []byte("1"), Rev: rev, Made: rev}})
	h.equal("else of an absent key", h.txn(keys.Txn{If: no, Then: w, Else: h.key("b")}), keys.TxnResult{Rev: rev})
	h.equal("no else", h.txn(keys.Txn{If: no, Then: w}), keys.TxnResult{Rev: rev})
	h.equal("else not needed", h.txn(keys.Txn{Then: w, Else: h.key("a")}), keys.TxnResult{OK: true, Rev: rev + 1})
}

func testRefused(h *harness) {
	many := make([]keys.Guard, keys.MaxOps+1)
	writes := make([]keys.Write, keys.MaxOps+1)
	for i := range many {
		many[i] = keys.Absent(h.key("x"))
		writes[i] = keys.Put(h.key(fmt.Sprint(i)), []byte("1"))
	}
	a := keys.Put(h.key("a"), []byte("1"))
	for name, bad := range map[string]keys.Txn{
		"key twice":              {Then: []keys.Write{a, a}},
		"put and delete":         {Then: []keys.Write{a, keys.Delete(h.key("a"))}},
		"put in a deleted range": {Then: []keys.Write{keys.DeleteRange(h.prefix, keys.End(h.prefix)), a}},
		"too many guards":        {If: many, Then: []keys.Write{a}},
		"too many writes":        {Then: writes},
		"no key":                 {Then: []keys.Write{keys.Put("", []byte("1"))}},
		"twice, behind a guard":  {If: []keys.Guard{keys.Unchanged(h.key("a"), 1)}, Then: []keys.Write{a, a}},
	} {
		if _, err := h.A.Txn(h.Context(), bad); !keys.Refused(err) {
			h.Errorf("%s: %v, want a refusal", name, err)
		}
	}
	h.equal("keys after refusals", h.names(), []string(nil))
	h.txn(keys.Txn{If: many[1:], Then: writes[1:]}) // exactly as many as allowed
	h.write(keys.DeleteRange(h.prefix, keys.End(h.prefix)), keys.Delete(h.key("1")))
}

func testDeleteRange(h *harness) {
	h.put("ready/1/a=", "ready/1/b=", "ready/2/a=", "ready=", "ready0=")
	h.write(keys.DeleteRange(h.key("ready/"), h.key("ready/2")))
	h.equal("after the older half", h.names(), []string{"ready=", "ready/2/a=", "ready0="})
	h.write(keys.DeleteRange(h.key("ready/"), keys.End(h.key("ready/"))))
	h.equal("after all of it", h.names(), []string{"ready=", "ready0="})
}

func testLostLease(h *harness) {
	l, _ := h.grant(patience)
	if err := h.A.Revoke(h.Context(), l); err != nil {
		h.Fatal(err)
	}
	put := keys.PutLeased(h.key("a"), []byte("1"), l)
	_, err := h.A.Txn(h.Context(), keys.Txn{Then: []keys.Write{keys.Put(h.key("b"), []byte("1")), put}})
	if !keys.Refused(err) || !errors.Is(err, keys.ErrLeaseLost) {
		h.Fatalf("put on a lost lease: %v", err)
	}
	h.equal("keys", h.names(), []string(nil))
	h.put("x=1")
	if r := h.txn(keys.Txn{If: []keys.Guard{keys.Absent(h.key("x"))}, Then: []keys.Write{put}}); r.OK {
		h.Fatal("a guard that does not hold was ignored")
	}
}
