package options

import "testing"

func TestEnoughAddresses(t *testing.T) {
	for limit, is := range map[uint64]bool{1 << 30: false, 4<<30 - 1: false, 4 << 30: true, 1<<64 - 1: true} {
		if err := enoughAddresses(limit); (err == nil) != is {
			t.Errorf("%d bytes: %v", limit, err)
		}
	}
}

func TestEnoughFiles(t *testing.T) {
	for _, c := range []struct {
		limit   uint64
		workers int
		is      bool
	}{{135, 1, false}, {136, 1, true}, {191, 8, false}, {192, 8, true}, {1 << 63, 1, true}} {
		if err := enoughFiles(c.limit, c.workers); (err == nil) != c.is {
			t.Errorf("%d files for %d workers: %v", c.limit, c.workers, err)
		}
	}
}
