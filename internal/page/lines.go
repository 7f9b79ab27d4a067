package page

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/elasticd/elastic/pkg/schema"
)

// Ask selects lines of the workers of a job.
type Ask struct {
	Job        schema.Job
	Generation uint64 // 0: all
	Rank       int    // -1: all
	From, To   time.Time
}

// Line is one line of a worker.
type Line struct {
	Rank    int    `json:"rank"`
	Node    string `json:"node"`
	Process string `json:"process,omitempty"`
	At      int64  `json:"at"` // milliseconds since 1970; 0: not known
	Text    string `json:"text"`
}

// Read is the answer to an Ask.
type Read struct {
	Lines []Line   `json:"lines"`
	Notes []string `json:"notes"` // what could not be read, and where it is
}

// Lines reads lines of workers, at most the newest mostLines.
type Lines func(context.Context, Ask) (Read, error)

// MostLines bounds an answer.
const MostLines = 500

// linesLimit is how long nodes may take to answer.
const linesLimit = 8 * time.Second

// serveLines answers with lines of workers.
func (p *Page) serveLines(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	a := Ask{Job: schema.Job(q.Get("job")), Rank: -1}
	if p.lines == nil || !schema.ValidName(string(a.Job)) {
		http.Error(w, "no lines of this job can be read here", http.StatusNotFound)
		return
	}
	if n, err := strconv.Atoi(q.Get("rank")); err == nil && n >= 0 {
		a.Rank = n
	}
	if n, err := strconv.ParseUint(q.Get("generation"), 10, 64); err == nil {
		a.Generation = n
	}
	for name, at := range map[string]*time.Time{"from": &a.From, "to": &a.To} {
		if ms, err := strconv.ParseInt(q.Get(name), 10, 64); err == nil && ms > 0 {
			*at = time.UnixMilli(ms)
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), linesLimit)
	defer cancel()
	read, err := p.lines(ctx, a)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(read) // the browser went away
}
