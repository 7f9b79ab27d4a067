package history_test

import (
	"testing"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
	"github.com/elasticd/elastic/pkg/store/memory"
)

// Thousands of saves do not push out what else happened to a job.
func TestTrimKeepsMoreThanSaves(t *testing.T) {
	s, job := memory.New().Client("a"), schema.Job("x")
	tell := func(k history.Kind) {
		if _, err := s.Txn(t.Context(), store.Txn{Then: []store.Write{
			history.Tell(job, history.Event{Kind: k})}}); err != nil {
			t.Fatal(err)
		}
	}
	tell(history.WorldRunning)
	for range history.KeptSaves + history.Kept {
		tell(history.Committed)
	}
	for range 2 {
		if err := history.Trim(t.Context(), s, job); err != nil {
			t.Fatal(err)
		}
	}
	all, _, err := history.Read(t.Context(), s, job, 0)
	if err != nil || len(all) != history.KeptSaves+1 || all[0].Kind != history.WorldRunning {
		t.Fatalf("%d events are left (%v), want %d and the start", len(all), err, history.KeptSaves)
	}
	for range history.Kept {
		tell(history.NodeLost)
	}
	if err := history.Trim(t.Context(), s, job); err != nil {
		t.Fatal(err)
	}
	if all, _, _ = history.Read(t.Context(), s, job, 0); len(all) != history.KeptSaves+history.Kept ||
		all[0].Kind == history.WorldRunning {
		t.Errorf("%d events are left", len(all))
	}
}
