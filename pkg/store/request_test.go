package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

func join(value string) store.Request {
	return store.Request{If: []store.Guard{store.Absent("/me")},
		Then: []store.Write{store.Put("/me", []byte(value))}}
}

// Send survives a cut, sends no more often than its back-off allows, and returns the result.
func TestSendOverACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.New()
		s := c.Client("s")
		sent := 0
		s.Fates(func(memory.Op) memory.Fate { sent++; return memory.Fate{} })
		c.Down()
		time.AfterFunc(time.Minute, c.Up)
		start := time.Now()
		rev, err := store.Send(t.Context(), s, join("1"))
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

// The value of the first key decides. If it is this request's own value, the request was applied.
// Otherwise it never will be.
func TestSendReadsItsProof(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(s store.Store) // between the mute sending and the next
		moved     bool
	}{
		"still there": {func(store.Store) {}, false},
		"overwritten": {func(s store.Store) {
			s.Txn(context.Background(), store.Txn{Then: []store.Write{store.Put("/me", []byte("2"))}})
		}, true},
		"other changes": {func(s store.Store) {
			s.Txn(context.Background(), store.Txn{Then: []store.Write{store.Put("/x", []byte("1"))}})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := memory.New()
				s, other := cl.Client("s"), cl.Client("other")
				n := 0
				s.Fates(func(memory.Op) memory.Fate {
					if n++; n == 2 {
						c.meanwhile(other)
					}
					return memory.Fate{Mute: n == 1}
				})
				rev, err := store.Send(t.Context(), s, join("1"))
				if c.moved != errors.Is(err, store.ErrMoved) || (err == nil && rev != 2) {
					t.Errorf("revision %d, %v", rev, err)
				}
			})
		})
	}
}

func TestSendEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New().Client("s")
		s.Cut(true)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		_, err := store.Send(ctx, s, join("1"))
		if err == nil || errors.Is(err, store.ErrMoved) || store.Refused(err) ||
			time.Since(start) != 5*time.Second {
			t.Errorf("%v after %v, want an unknown result after 5 s", err, time.Since(start))
		}
	})
}

func TestSendOfTooMuch(t *testing.T) {
	s := memory.New().Client("s")
	s.Fates(func(memory.Op) memory.Fate { t.Error("it was sent"); return memory.Fate{} })
	r := join("1")
	for i := range store.MaxOps {
		r.Then = append(r.Then, store.Delete(fmt.Sprint("/", i)))
	}
	if _, err := store.Send(t.Context(), s, r); err == nil {
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
		"nil": {nil, false}, "other": {errors.New("x"), false}, "refused": {refusal(true), true},
		"not":     {refusal(false), false},
		"wrapped": {fmt.Errorf("a: %w", fmt.Errorf("b: %w", refusal(true))), true},
	} {
		if got := store.Refused(c.err); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestRecords(t *testing.T) {
	type record struct {
		N int    `json:"n"`
		S string `json:"s"`
	}
	e := &store.Entry{Key: "/k", Value: schema.Encode(record{7, "x"})}
	if got, err := schema.Decode[record](e); err != nil || got != (record{7, "x"}) {
		t.Errorf("%+v, %v", got, err)
	}
	e.Value = []byte(`{"format":1,"record":{"n":7,"later":true}}`) // fields are added within a format
	if got, err := schema.Decode[record](e); err != nil || got.N != 7 {
		t.Errorf("%+v, %v", got, err)
	}
	e.Value = []byte(`{"format":3,"record":["all else"]}`)
	if _, err := schema.Decode[record](e); !errors.Is(err, schema.ErrNewerFormat) {
		t.Errorf("%v, want ErrNewerFormat", err)
	}
	for _, bad := range []string{"", "null", "x", `{"format":1,"record":"x"}`, `{"format":1}`} {
		e.Value = []byte(bad)
		if got, err := schema.Decode[record](e); err == nil || errors.Is(err, schema.ErrNewerFormat) {
			t.Errorf("%q was read as %+v: %v", bad, got, err)
		}
	}
}
