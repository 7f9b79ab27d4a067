package proc

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLimited(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		limit int64
		left  int64
		ok    bool
	}{
		{"a limit", map[string]string{"memory.max": "1000\n", "memory.current": "700\n",
			"memory.stat": "anon 600\ninactive_file 100\n"}, 1000, 400, true},
		{"no limit", map[string]string{"memory.max": "max\n", "memory.current": "700\n",
			"memory.stat": "inactive_file 100\n"}, 0, 0, false},
		{"no controller", nil, 0, 0, false},
		{"nothing cached", map[string]string{"memory.max": "1000\n", "memory.current": "700\n",
			"memory.stat": "anon 600\n"}, 1000, 300, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, content := range c.files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if limit, left, ok := limited(dir, "memory.max", "memory.current"); limit != c.limit ||
				left != c.left || ok != c.ok {
				t.Errorf("%d, %d, %t", limit, left, ok)
			}
		})
	}
}

func TestMemoryOfThisMachine(t *testing.T) {
	total, free := Memory()
	if total <= 0 || free <= 0 || free > total {
		t.Errorf("%d bytes, %d of them free", total, free)
	}
	if n := kilobytes("MemTotal:       24 kB\nMemAvailable: 7 kB\n", "MemAvailable:"); n != 7 {
		t.Errorf("available: %d", n)
	}
}
