package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/overview"
	"github.com/elasticd/elastic/internal/progress"
	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// cell has the records of one job. Each is decoded once: events when they come, others when they are
// first shown.
type cell struct {
	job     schema.Job
	records map[string]store.Entry
	events  []history.Event
	revs    map[string]int64 // of the entries of events
	order   bool             // the events are in order
}

func newCell(job schema.Job) *cell {
	return &cell{job: job, records: map[string]store.Entry{}, revs: map[string]int64{}, order: true}
}

// put takes a record that was written, and reports whether it can wait a second: it is progress.
func (c *cell) put(e store.Entry) (calm bool) {
	if !strings.HasPrefix(e.Key, c.job.Events()) {
		e.Memo = new(store.Memo)
		c.records[e.Key] = e
		return e.Key == c.job.Progress() || e.Key == c.job.Curve()
	}
	if _, known := c.revs[e.Key]; known {
		c.drop(e.Key)
	}
	events, err := history.Decode(&e)
	if err != nil {
		return true // it cannot be shown
	}
	c.revs[e.Key] = e.Rev
	c.order = c.order && (len(c.events) == 0 || len(events) == 0 ||
		c.events[len(c.events)-1].Rev < events[0].Rev)
	c.events = append(c.events, events...)
	return false
}

// drop removes a record that was deleted.
func (c *cell) drop(key string) {
	if rev, ok := c.revs[key]; ok {
		delete(c.revs, key)
		c.events = slices.DeleteFunc(c.events,
			func(e history.Event) bool { return e.Rev/history.Places == rev })
		return
	}
	delete(c.records, key)
}

// source returns what the overview of the job is derived from; Snapshot is nil if there is no job.
func (c *cell) source(now time.Time) (overview.Source, error) {
	if !c.order {
		slices.SortFunc(c.events, func(a, b history.Event) int { return cmp.Compare(a.Rev, b.Rev) })
		c.order = true
	}
	entries := make([]store.Entry, 0, len(c.records))
	for _, e := range c.records {
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b store.Entry) int { return strings.Compare(a.Key, b.Key) })
	s, err := rendezvous.Decode(c.job, store.Read{Entries: entries})
	if err != nil {
		return overview.Source{}, fmt.Errorf("job %s cannot be read: %w", c.job, err)
	}
	if s.Job == nil {
		return overview.Source{}, nil
	}
	s.Events = slices.Clip(c.events)
	src := overview.Source{Snapshot: &s, Now: now}
	if e, ok := c.records[c.job.Curve()]; ok {
		// a curve that cannot be read is not shown
		src.Curve, _ = schema.Decode[progress.Curve](&e)
	}
	return src, nil
}

// jobOf returns the job of a key; "": it is none's.
func jobOf(key string) schema.Job {
	name, _, ok := strings.Cut(strings.TrimPrefix(key, schema.Root), "/")
	if !ok || !schema.ValidName(name) {
		return ""
	}
	return schema.Job(name)
}
