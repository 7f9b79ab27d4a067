package saves

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elasticd/elastic/internal/scope"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// A node tries to remove its report until the store has done so, because the other nodes wait while
// the report says that bytes move.
func TestThatNothingMovesIsSaidUntilItIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := memory.New()
		said := func() string {
			r, err := servers.Client("reader").Get(t.Context(), "doing", "")
			if err != nil {
				t.Fatal(err)
			}
			if e := r.One(); e != nil {
				return string(e.Value)
			}
			return ""
		}
		own := servers.Client("own")
		if _, err := own.Txn(t.Context(),
			store.Txn{Then: []store.Write{store.Put("doing", []byte("saving"))}}); err != nil {
			t.Fatal(err)
		}
		var effects scope.Scope
		d := NewDoing(&effects, own, "doing")
		time.Sleep(time.Second)
		if got := said(); got != "" {
			t.Errorf("of its last life it says %q", got)
		}
		d.Blocked("the disk is full")
		time.Sleep(time.Second)
		if got := said(); !strings.Contains(got, "the disk is full") {
			t.Errorf("it is blocked, and says %q", got)
		}
		d.Nothing()
		d.Moving("saving", 1, 10)
		time.Sleep(2 * time.Second)
		d.Moving("saving", 2, 10)
		time.Sleep(time.Second)
		if got := said(); got == "" {
			t.Error("bytes move, and it says nothing")
		}
		own.Cut(true)
		d.Nothing()
		time.Sleep(5 * time.Second)
		own.Cut(false)
		time.Sleep(5 * time.Second)
		if got := said(); got != "" {
			t.Errorf("nothing moves, and it says %q", got)
		}
		effects.End()
		effects.Wait()
	})
}
