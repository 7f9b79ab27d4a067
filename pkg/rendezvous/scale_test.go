package rendezvous_test

import (
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

// What scale prints before it follows is what the planner does then.
func TestScaleEffect(t *testing.T) {
	const running = rendezvous.Running
	lastCall := rule(func(r *rendezvous.Rules) { r.LastCall = rendezvous.Seconds(3 * time.Second) })
	for _, c := range []struct {
		name  string
		x     *situation
		np    int
		until int
		want  string
	}{
		{"a range with too few nodes",
			given(aRange(1, 4).here("a", "b").world(running, "a", "b")), 4, 0, "training goes on with 2"},
		{"a range with a spare, and still too few",
			given(aRange(1, 4).here("a", "b", "c").world(running, "a", "b"), lastCall), 4, 0,
			"training goes on with 2 for a last call of 3s, and then with 3"},
		{"a range with all of them",
			given(aRange(1, 4).here("a", "b", "c", "d").world(running, "a", "b")),
			4, 0, "the workers save, and go on with 4"},
		{"the same members",
			given(aRange(1, 4).here("a", "b").world(running, "a", "b")), 2, 0, "training goes on with 2"},
		{"fewer",
			given(aRange(1, 4).here("a", "b").world(running, "a", "b")), 1, 0, "the workers save, and go on with 1"},
		{"an exact job with too few", given(aJob(2).here("a", "b").world(running, "a", "b")), 4, 0,
			"training waits until 2 more nodes are here; --when-ready trains on until then; undo: elastic " +
				"scale x --np=2"},
		{"one that keeps its size until then",
			given(aJob(2).here("a", "b").world(running, "a", "b")),
			3, 2, "training goes on with 2 until 1 more node is here"},
		{"a job that does not train",
			given(aJob(2).here("a", "b", "c").world(rendezvous.Waiting, "a", "b")),
			3, 0, "the next generation has 3"},
	} {
		wish := c.x.Wish
		wish.NP, wish.Until, wish.Request = c.np, c.until, "new"
		if got := status.ScaleEffect(&c.x.Snapshot, wish); !strings.HasSuffix(got, c.want) {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}
