package proc

import (
	"os"
	"strconv"
	"testing"
)

func TestBusiest(t *testing.T) {
	counts := func(a, b, c int64) map[string]int64 { return map[string]int64{"1": a, "2": b, "3": c} }
	for _, c := range []struct {
		name          string
		before, after map[string]int64
		want          string
	}{
		{"the thread whose count rose most", counts(100, 5, 7), counts(110, 45, 20), "2"},
		{"a thread that began meanwhile is not counted", map[string]int64{"1": 5}, counts(6, 90, 0), "1"},
		{"a thread that ended meanwhile is gone", counts(1, 2, 3), map[string]int64{"1": 4}, "1"},
		{"none woke", counts(1, 2, 3), counts(1, 2, 3), ""},
		{"nothing is known", nil, nil, ""},
	} {
		if got := busiest(c.before, c.after); got != c.want {
			t.Errorf("%s: thread %q, want %q", c.name, got, c.want)
		}
	}
}

// The counts are those of this process, thread by thread; the first has the number of the process.
func TestWakes(t *testing.T) {
	all := wakes()
	if _, there := all[strconv.Itoa(os.Getpid())]; !there || len(all) < 2 {
		t.Errorf("threads %v", all)
	}
}
