package pipeline

import (
	"os"
	"strconv"
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/checkpoint/replicator"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/store"
)

// A generation may commit for months. What it leaves in the store does not grow with that: events
// are trimmed at commits, and the reading that this takes is a few entries for each. COUNT sets how
// many commits there are.
func TestEventsStayBoundedWithinOneGeneration(t *testing.T) {
	commits := 5_000
	if n, err := strconv.Atoi(os.Getenv("COUNT")); err == nil {
		commits = n
	}
	c := newCluster(t, "a")
	client := c.etcd.Client("a")
	trim := &history.Trimmer{Store: client, Job: testJob}
	r := c.replicator("a", client, func(replicator.Event) {}).Record
	most, bytes := 0, 0
	var seen manifest.Head
	for i := range commits {
		var err error
		seen, err = r.Commit(t.Context(),
			manifest.Head{Generation: 1, Manifest: manifest.Hash{byte(i), byte(i >> 8), byte(i >> 16)}},
			seen, c.nodes)
		must(t, err)
		must(t, r.Drop(t.Context(), 1, seen, checkpoint.Retention{Keep: 3}.Surplus(committed(t, r), seen)))
		must(t, trim.Wrote(t.Context(), 2))
		if i%33 == 0 {
			all := c.etcd.Read(store.Below(testJob.Prefix())).Entries
			most, bytes = max(most, len(all)), 0
			for _, e := range all {
				bytes += len(e.Key) + len(e.Value)
			}
			c.etcd.Compact(c.etcd.Rev())
		}
	}
	t.Logf("%d commits: at most %d keys, at the end %d bytes", commits, most, bytes)
	if limit := history.KeptSaves + 2*history.TrimEvery; most > limit {
		t.Errorf("%d keys after %d commits, the limit is %d", most, commits, limit)
	}
	events, _, err := history.Read(t.Context(), client, testJob, 0)
	must(t, err)
	if n := len(events); n < history.KeptSaves || events[n-1].Rev < seen.Rev*1000 {
		t.Errorf("%d events are kept, the newest at %d; the newest commit was at %d", n, events[n-1].Rev, seen.Rev)
	}
}

func committed(t *testing.T, r *checkpoint.Record) []manifest.Head {
	t.Helper()
	_, all, err := r.Read(t.Context())
	must(t, err)
	return all
}
