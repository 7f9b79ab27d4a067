// Package history has the durable events of a job.
//
// An event is written in the transaction that it reports. So each event has happened, and
// everything reported in this way has its event.
package history

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"sort"
	"time"

	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

// Kind is the kind of an event. docs/REFERENCE.md lists the kinds and their fields.
type Kind string

const (
	JobCreated    Kind = "job_created"
	JobRemade     Kind = "job_remade"
	NodeJoined    Kind = "node_joined"
	NodeSuspected Kind = "node_suspected"
	NodeCleared   Kind = "node_cleared"
	NodeLost      Kind = "node_lost"
	NodeLeft      Kind = "node_left"
	Quarantined   Kind = "node_quarantined"
	Admitted      Kind = "node_admitted"
	WishChanged   Kind = "wish_changed"
	WaitEntered   Kind = "wait_entered"
	WorldProposed Kind = "world_proposed"
	WorldRunning  Kind = "world_running"
	Started       Kind = "workers_started"
	WorkerFailed  Kind = "worker_failed"
	Backoff       Kind = "backoff"
	SaveAsked     Kind = "save_asked"
	Committed     Kind = "checkpoint_committed"
	Refused       Kind = "checkpoint_refused"
	Bad           Kind = "checkpoint_bad"
	Damaged       Kind = "checkpoint_damaged"
	Distrusted    Kind = "checkpoint_distrusted"
	Deleted       Kind = "checkpoint_deleted"
	LossNaN       Kind = "loss_nan"
	Stalled       Kind = "stalled"
	StallOver     Kind = "stall_over"
	SlowRank      Kind = "slow_rank"
	Brought       Kind = "checkpoint_brought"
	JobFinishing  Kind = "job_finishing"
	JobDone       Kind = "job_done"
	JobFailed     Kind = "job_failed"
	JobStopped    Kind = "job_stopped"
)

// Fields are the fields of a kind, beside those that every event has.
type Fields map[string]any

// Event is one event. Rev is Places × the revision of its transaction + its index in it. It rises
// strictly, and can be used to resume.
type Event struct {
	Rev        int64
	Time       time.Time
	Job        schema.Job
	Generation schema.Generation
	Kind       Kind
	Node       string // "" is null
	Text       string // one sentence, for people
	Fields     Fields
}

// Places is the number of events that one transaction can have: Rev / Places is the revision of the
// entry of an event.
const Places = 1000

// TimeFormat is how every time is shown and written: UTC, milliseconds.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// MarshalJSON writes an event flat, in the form of `elastic events -o json`.
func (e Event) MarshalJSON() ([]byte, error) {
	m := map[string]any{}
	for k, v := range e.Fields {
		m[k] = v
	}
	m["rev"], m["time"], m["job"] = e.Rev, e.Time.UTC().Format(TimeFormat), e.Job
	m["generation"], m["kind"], m["text"] = e.Generation, e.Kind, e.Text
	m["node"] = nil
	if e.Node != "" {
		m["node"] = e.Node
	}
	return json.Marshal(m)
}

// UnmarshalJSON reads what MarshalJSON wrote. It decodes once, because an event of a large job lists
// a thousand nodes.
func (e *Event) UnmarshalJSON(b []byte) error {
	e.Fields = nil
	if err := json.Unmarshal(b, &e.Fields); err != nil {
		return err
	}
	h := head{fields: e.Fields}
	e.Rev, e.Generation = int64(take[float64](&h, "rev")), schema.Generation(take[float64](&h, "generation"))
	e.Job, e.Kind = schema.Job(take[string](&h, "job")), Kind(take[string](&h, "kind"))
	e.Node, e.Text = take[string](&h, "node"), take[string](&h, "text")
	e.Time = time.Time{}
	if at := take[string](&h, "time"); at != "" && h.err == nil {
		e.Time, h.err = time.Parse(time.RFC3339, at)
	}
	return h.err
}

// head takes what every event has out of the fields of one.
type head struct {
	fields Fields
	err    error // the first
}

// take returns a field and removes it; the zero value if it is null or not there.
func take[T any](h *head, key string) (value T) {
	if v := h.fields[key]; v != nil {
		var ok bool
		if value, ok = v.(T); !ok && h.err == nil {
			h.err = fmt.Errorf("%s of an event is %v", key, v)
		}
	}
	delete(h.fields, key)
	return value
}

// Field returns a field of an event as a T; the zero value if it is not there, or no T.
func Field[T any](e *Event, name string) (value T) {
	v := e.Fields[name]
	if value, ok := v.(T); ok || v == nil {
		return value // most are strings and booleans
	}
	b, err := json.Marshal(v)
	if err != nil || json.Unmarshal(b, &value) != nil {
		return *new(T)
	}
	return value
}

// Tell returns the write that records events in a transaction: all of them in one value.
func Tell(job schema.Job, events ...Event) store.Write {
	now := time.Now()
	for i := range events {
		events[i].Job, events[i].Time = job, now
	}
	return store.Put(job.Event(rand.Text()), schema.Encode(events))
}

// Decode reads the events of one entry, with their revisions.
func Decode(e *store.Entry) ([]Event, error) {
	events, err := schema.Decode[[]Event](e)
	if err != nil {
		return nil, fmt.Errorf("read event: %w", err)
	}
	for i := range events {
		events[i].Rev = e.Rev*Places + int64(i)
	}
	return events, nil
}

// Of returns the events of a read by revision. It skips entries that are no events of job.
func Of(job schema.Job, entries []store.Entry) []Event {
	var all []Event
	for i := range entries {
		if schema.Rest(job.Events(), entries[i].Key) == nil {
			continue
		}
		if events, err := Decode(&entries[i]); err == nil {
			all = append(all, events...)
		}
	}
	sort.Slice(all, func(i, k int) bool { return all[i].Rev < all[k].Rev })
	return all
}

// Read returns the events after revision since, and the revision from which to watch for more.
func Read(ctx context.Context, s store.Store, job schema.Job, since int64) ([]Event, int64, error) {
	r, err := s.Get(ctx, job.Events(), store.End(job.Events()))
	if err != nil {
		return nil, 0, fmt.Errorf("read events: %w", err)
	}
	all := Of(job, r.Entries)
	from := sort.Search(len(all), func(i int) bool { return all[i].Rev > since })
	return all[from:], r.Rev + 1, nil
}
