package rendezvous_test

import (
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// The order of a World is the time of its proposal, and above that of the World before, whatever the
// clock shows.
func TestOrderOfWorlds(t *testing.T) {
	w := newStoredJob(t, memory.New().Client("a"), "x").create(1).join("a")
	began := schema.Order(time.Now().UnixMilli())
	first := w.propose("a").see().World.Order
	if now := schema.Order(time.Now().UnixMilli()); first < began || first > now {
		t.Errorf("the order of the first World is %d, the time was %d to %d", first, began, now)
	}
	ahead := *w.see().World
	ahead.Order += 1 << 40 // its clock was ahead
	w.record(w.Job.World(), ahead)
	if next := w.propose("a").see().World.Order; next != ahead.Order+1 {
		t.Errorf("the order of the next World is %d, that before is %d", next, ahead.Order)
	}
	head := checkpoint.Head{Number: 1, Generation: 2, Order: ahead.Order + 50}
	w.record(w.Job.Head(), head)
	if next := w.propose("a").see().World.Order; next != head.Order+1 {
		t.Errorf("the order of the next World is %d, that of the head is %d", next, head.Order)
	}
}
