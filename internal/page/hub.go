package page

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/elasticd/elastic/internal/overview"
	"github.com/elasticd/elastic/internal/scope"
	"github.com/elasticd/elastic/pkg/schema"
	"github.com/elasticd/elastic/pkg/store"
)

const (
	soon     = 60 * time.Millisecond // from a change of the job to the page
	calmly   = time.Second           // from a report of progress to the page
	lookTime = 5 * time.Second       // how often what depends on the time is derived again
	linger   = 20 * time.Second      // how long the hub reads on without a viewer
)

// piece is one part of what pages show: as JSON, the value that it was made from, and when it changed.
type piece struct {
	json    json.RawMessage
	value   any
	version int64
}

// hub reads the store while at least one viewer is there, and derives what all of them see.
type hub struct {
	source Source
	health func(context.Context) Health
	scope  scope.Scope   // ends with the page
	asked  chan struct{} // has room for one: a viewer came

	mu      sync.Mutex
	viewers map[*viewer]bool
	reading bool // a goroutine reads the store
	pieces  map[string]piece
	jobs    map[schema.Job]*overview.Job // those that are shown at length. Nothing in them changes any more
	version int64
	text    string // why the store cannot be read; "": it can

	// owned by the goroutine that reads
	cells map[schema.Job]*cell
}

// viewer is one open page.
type viewer struct {
	job  schema.Job    // shown at length; "": only the list
	wake chan struct{} // has room for one: something changed
	seen int64         // the newest version that was sent
}

func newHub(s Source, health func(context.Context) Health) *hub {
	return &hub{source: s, health: health, viewers: map[*viewer]bool{},
		pieces: map[string]piece{}, jobs: map[schema.Job]*overview.Job{}, asked: make(chan struct{}, 1)}
}

func (h *hub) close() {
	h.scope.End()
	h.scope.Wait()
}

// join adds a viewer, and starts to read for the first one.
func (h *hub) join(job schema.Job) *viewer {
	v := &viewer{job: job, wake: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.viewers[v] = true
	if !h.reading && !h.scope.Ended() {
		h.reading = true
		h.scope.Go(h.read)
	}
	v.wake <- struct{}{}
	select {
	case h.asked <- struct{}{}:
	default:
	}
	return v
}

func (h *hub) leave(v *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.viewers, v)
}

// watched returns the jobs that are shown at length, and whether anybody looks.
func (h *hub) watched() (jobs map[schema.Job]bool, anybody bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	jobs = map[schema.Job]bool{}
	for v := range h.viewers {
		jobs[v.job] = true
	}
	return jobs, len(h.viewers) > 0
}

// set publishes a piece, if it changed.
func (h *hub) set(key string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		return // no value of ours fails
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if bytes.Equal(h.pieces[key].json, b) {
		return
	}
	h.version++
	h.pieces[key] = piece{b, v, h.version}
}

// remove takes back the pieces of a job that is gone.
func (h *hub) remove(job schema.Job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.jobs, job)
	for key := range h.pieces {
		if key == "jobs/"+string(job) || strings.HasPrefix(key, "job/"+string(job)+"/") {
			h.version++
			h.pieces[key] = piece{version: h.version}
		}
	}
}

// tell wakes all viewers. text says why the store cannot be read.
func (h *hub) tell(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text = text
	for v := range h.viewers {
		select {
		case v.wake <- struct{}{}:
		default:
		}
	}
}

// message is what one viewer is sent.
type message struct {
	Now     int64                      `json:"now"`
	Problem string                     `json:"problem"` // why the store cannot be read
	Set     map[string]json.RawMessage `json:"set"`     // null: gone
}

// changes returns what v has not seen.
func (h *hub) changes(v *viewer) message {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := message{Now: time.Now().UnixMilli(), Problem: h.text, Set: map[string]json.RawMessage{}}
	own := "job/" + string(v.job) + "/"
	for key, p := range h.pieces {
		if p.version > v.seen && (!strings.HasPrefix(key, "job/") || strings.HasPrefix(key, own)) {
			m.Set[key] = p.json
			if p.json == nil {
				m.Set[key] = json.RawMessage("null")
			}
		}
	}
	v.seen = h.version
	return m
}

// read follows the store until nobody has looked for a while.
func (h *hub) read(ctx context.Context) {
	for wait := 100 * time.Millisecond; ctx.Err() == nil; {
		began := time.Now()
		err := h.follow(ctx)
		if err == nil && h.retire() {
			return
		}
		if err != nil && ctx.Err() == nil {
			h.tell(err.Error())
		}
		if time.Since(began) > 2*time.Second {
			wait = 100 * time.Millisecond
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, time.Second)
	}
}

// retire ends the reading if nobody looks. The next viewer starts it again.
func (h *hub) retire() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.viewers) > 0 {
		return false
	}
	h.reading, h.pieces, h.jobs, h.cells = false, map[string]piece{}, map[schema.Job]*overview.Job{}, nil
	return true
}

// follow lists all jobs and applies each change. It returns nil after a break of the watch, and if
// nobody looks.
func (h *hub) follow(ctx context.Context) error {
	r, err := h.source.Get(ctx, schema.Root, store.End(schema.Root))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := following{hub: h, due: map[schema.Job]bool{}, calm: map[schema.Job]bool{},
		answers: make(chan error)}
	h.scope.Go(func(context.Context) { f.ask(ctx) })
	f.first(ctx, r.Entries)
	return f.run(ctx, h.source.Watch(ctx, schema.Root, store.End(schema.Root), r.Rev+1))
}

func (h *hub) cell(job schema.Job) *cell {
	c := h.cells[job]
	if c == nil {
		c = newCell(job)
		h.cells[job] = c
	}
	return c
}

// summarise publishes the row of a job in the list.
func (h *hub) summarise(job schema.Job) {
	if src := h.explained(job); src != nil {
		h.set("jobs/"+string(job), overview.Summarise(*src))
	}
}

// describe publishes all that is seen of a job.
func (h *hub) describe(job schema.Job) {
	src := h.explained(job)
	if src == nil {
		return
	}
	o := overview.Of(*src)
	h.mu.Lock()
	h.jobs[job] = &o
	h.mu.Unlock()
	h.set("jobs/"+string(job), o.Summary)
	for name, part := range piecesOf(o) {
		h.set("job/"+string(job)+"/"+name, part)
	}
}

// explained returns what a job is derived from. If there is none, or it cannot be read, it publishes
// that and returns nil.
func (h *hub) explained(job schema.Job) *overview.Source {
	c := h.cells[job]
	if c == nil || len(c.records) == 0 {
		delete(h.cells, job)
		h.remove(job)
		return nil
	}
	src, err := c.source(time.Now())
	switch {
	case err != nil:
		h.set("jobs/"+string(job), overview.Unreadable(job, err))
		return nil
	case src.Snapshot == nil:
		h.remove(job)
		return nil
	}
	return &src
}
