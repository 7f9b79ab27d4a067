package saves

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// If the directory of the store is removed or replaced while its agent runs, the user is told
// within ten seconds, once, with a fix.
func TestStoreIsRemoved(t *testing.T) {
	for _, again := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "store")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			var said []string
			s := New(Config{Notice: func(text string) { said = append(said, text) }})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			abandoned := 0
			go s.watchStore(ctx, dir, func() { abandoned++ })
			time.Sleep(time.Minute)
			if len(said) > 0 || abandoned > 0 {
				t.Errorf("of a store that is there: %q, abandoned %d times", said, abandoned)
			}
			if err := os.Rename(dir, dir+"-away"); err != nil {
				t.Fatal(err)
			}
			if again {
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if len(said) != 1 || !strings.HasPrefix(said[0], dir) || !strings.Contains(said[0], "start it again") {
				t.Errorf("it says %q", said)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if len(said) != 1 || abandoned != 1 {
				t.Errorf("it says %q, and abandons %d times", said, abandoned)
			}
		})
	}
}
