package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/elasticd/elastic/pkg/schema"
)

// A stream has a sign of life this often, and a browser that does not take it for sendLimit is cut
// off.
const (
	signEvery = 10 * time.Second
	sendLimit = 20 * time.Second
)

// stream sends a viewer what is seen, and then each change.
func (p *Page) stream(w http.ResponseWriter, r *http.Request) {
	job := r.URL.Query().Get("job")
	if job != "" && !schema.ValidName(job) {
		http.Error(w, "not the name of a job", http.StatusBadRequest)
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // a stream has no end; a test's writer has no deadline
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	ctx, cancel := p.hub.scope.Context(r.Context()) // ends with the page, or with its reader
	defer cancel()
	v := p.hub.join(schema.Job(job))
	defer p.hub.leave(v)
	sign := time.NewTicker(signEvery)
	defer sign.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-sign.C:
		case <-v.wake:
		}
		b, err := json.Marshal(p.hub.changes(v))
		if err != nil {
			return
		}
		_ = control.SetWriteDeadline(time.Now().Add(sendLimit))
		if _, err := fmt.Fprintf(w, "retry: 500\ndata: %s\n\n", b); err != nil || control.Flush() != nil {
			return
		}
	}
}
