package keys_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/internal/etcdmem"
	"github.com/elasticd/elastic/internal/keys"
)

func join(value string) keys.Request {
	return keys.Request{If: []keys.Guard{keys.Absent("/me")}, Then: []keys.Write{keys.Put("/me", []byte(value))}}
}

// Send outlasts a cut, asks no more often than its back-off allows, and tells
// what came of it.
func TestSendOverACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := etcdmem.New()
		s := c.Client("s")
		sent := 0
		s.Fates(func(etcdmem.Op) etcdmem.Fate { sent++; return etcdmem.Fate{} })
		c.Down()
		time.AfterFunc(time.Minute, c.Up)
		start := time.Now()
		rev, err := keys.Send(t.Context(), s, join("1"))
		if err != nil || rev != 2 {
			t.Fatalf("revision %d, %v", rev, err)
		}
		if took := time.Since(start); took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("sent after %v", took)
		}
		if sent < 60 || sent > 130 {
			t.Errorf("sent %d times in a minute", sent)
		}
	})
}

// The proof is the first key as it is now: our value there, and the request
// was applied; anything else, and it never will be.
func TestSendReadsItsProof(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(s keys.Store) // between the mute sending and the next
		moved     bool
	}{
		"still there": {func(keys.Store) {}, false},
		"overwritten": {func(s keys.Store) {
			s.Txn(context.Background(), keys.Txn{Then: []keys.Write{keys.Put("/me", []byte("2"))}})
		}, true},
		"other changes": {func(s keys.Store) {
			s.Txn(context.Background(), keys.Txn{Then: []keys.Write{keys.Put("/x", []byte("1"))}})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := etcdmem.New()
				s, other := cl.Client("s"), cl.Client("other")
				n := 0
				s.Fates(func(etcdmem.Op) etcdmem.Fate {
					if n++; n == 2 {
						c.meanwhile(other)
					}
					return etcdmem.Fate{Mute: n == 1}
				})
				rev, err := keys.Send(t.Context(), s, join("1"))
				if c.moved != errors.Is(err, keys.ErrMoved) || (err == nil && rev != 2) {
					t.Errorf("revision %d, %v", rev, err)
				}
			})
		})
	}
}

func TestSendEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := etcdmem.New().Client("s")
		s.Cut(true)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		_, err := keys.Send(ctx, s, join("1"))
		if err == nil || errors.Is(err, keys.ErrMoved) || keys.Refused(err) || time.Since(start) != 5*time.Second {
			t.Errorf("%v after %v, want an unknown result after 5 s", err, time.Since(start))
		}
	})
}

func TestSendOfTooMuch(t *testing.T) {
	s := etcdmem.New().Client("s")
	s.Fates(func(etcdmem.Op) etcdmem.Fate { t.Error("it was sent"); return etcdmem.Fate{} })
	r := join("1")
	for i := range keys.MaxOps {
		r.Then = append(r.Then, keys.Delete(fmt.Sprint("/", i)))
	}
	if _, err := keys.Send(t.Context(), s, r); err == nil {
		t.Error("more writes than etcd takes were sent")
	}
}

type refusal bool

func (refusal) Error() string   { return "no" }
func (r refusal) Refused() bool { return bool(r) }

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"nil": {nil, false}, "other": {errors.New("x"), false}, "refused": {refusal(true), true}, "not": {refusal(false), false},
		"wrapped": {fmt.Errorf("a: %w", fmt.Errorf("b: %w", refusal(true))), true},
	} {
		if got := keys.Refused(c.err); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestRecords(t *testing.T) {
	type record struct {
		N int    `json:"n"`
		S string `json:"s"`
	}
	e := &keys.Entry{Key: "/k", Value: keys.Encode(record{7, "x"})}
	if got, err := keys.Decode[record](e); err != nil || got != (record{7, "x"}) {
		t.Errorf("%+v, %v", got, err)
	}
	e.Value = []byte(`{"format":1,"record":{"n":7,"later":true}}`) // fields are added within a format
	if got, err := keys.Decode[record](e); err != nil || got.N != 7 {
		t.Errorf("%+v, %v", got, err)
	}
	e.Value = []byte(`{"format":2,"record":["all else"]}`)
	if _, err := keys.Decode[record](e); !errors.Is(err, keys.ErrNewerFormat) {
		t.Errorf("%v, want ErrNewerFormat", err)
	}
	for _, bad := range []string{"", "null", "x", `{"format":1,"record":"x"}`, `{"format":1}`} {
		e.Value = []byte(bad)
		if got, err := keys.Decode[record](e); err == nil || errors.Is(err, keys.ErrNewerFormat) {
			t.Errorf("%q was read as %+v: %v", bad, got, err)
		}
	}
}
