package history_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/history"
)

// A field is read as it came from the store, and as its writer set it. What is no T counts as not there.
func TestField(t *testing.T) {
	set := history.Event{Fields: history.Fields{"word": "a", "step": new(int64(7)), "at": "2026-11-21T12:00:00.000Z",
		"none": nil, "part": 1.5}}
	var read history.Event
	if b, err := json.Marshal(set); err != nil || json.Unmarshal(b, &read) != nil {
		t.Fatal(err)
	}
	for _, e := range []*history.Event{&set, &read} {
		step, at := history.Field[*int64](e, "step"), history.Field[*time.Time](e, "at")
		if history.Field[string](e, "word") != "a" || history.Field[int](e, "step") != 7 || step == nil || *step != 7 ||
			at == nil || at.Hour() != 12 {
			t.Errorf("%v is read as %v and %v", e.Fields, step, at)
		}
		if history.Field[*int64](e, "none") != nil || history.Field[*int64](e, "absent") != nil ||
			history.Field[int](e, "part") != 0 || history.Field[*time.Time](e, "word") != nil ||
			history.Field[bool](e, "word") {
			t.Errorf("%v has values that are none", e.Fields)
		}
	}
}
