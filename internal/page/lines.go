package page

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/elasticd/elastic/internal/logs"
	"github.com/elasticd/elastic/pkg/schema"
)

// Lines reads lines of workers, at most the newest MostLines. Notes say what could not be read, and where
// it is.
type Lines func(context.Context, logs.Query) (lines []logs.Line, notes []string, err error)

// MostLines bounds an answer.
const MostLines = 500

// linesLimit is how long nodes may take to answer.
const linesLimit = 8 * time.Second

// serveLines answers with lines of workers.
func (p *Page) serveLines(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	ask := logs.Query{Job: q.Get("job")}
	if p.lines == nil || !schema.ValidName(ask.Job) {
		http.Error(w, "no lines of this job can be read here", http.StatusNotFound)
		return
	}
	if n, err := strconv.Atoi(q.Get("rank")); err == nil && n >= 0 {
		ask.Ranks = []int{n}
	}
	if n, err := strconv.ParseUint(q.Get("generation"), 10, 64); err == nil {
		ask.Generation = n
	}
	for name, at := range map[string]*time.Time{"from": &ask.After, "to": &ask.Until} {
		if ms, err := strconv.ParseInt(q.Get(name), 10, 64); err == nil && ms > 0 {
			*at = time.UnixMilli(ms)
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), linesLimit)
	defer cancel()
	lines, notes, err := p.lines(ctx, ask)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(map[string]any{"lines": lines, "notes": notes}) // the browser went away
}
