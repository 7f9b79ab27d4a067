package memory_test

import (
	"testing"
	"testing/synctest"

	"github.com/elasticd/elastic/pkg/store/memory"
	"github.com/elasticd/elastic/pkg/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T, test func(*testing.T, storetest.Subject)) {
		synctest.Test(t, func(t *testing.T) {
			c := memory.New()
			test(t, storetest.Subject{A: c.Client("a"), B: c.Client("b"), Compact: c.Compact})
		})
	})
}
