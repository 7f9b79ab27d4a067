package page

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/elasticd/elastic/internal/overview"
	"github.com/elasticd/elastic/pkg/schema"
)

// View is what a viewer sees, for programs.
type View struct {
	Jobs    []overview.Summary // the worst first
	Job     *overview.Job      // the job at length; nil: none was asked for, or it is not there
	Health  *Health            // nil: not known yet
	Problem string             // why the store cannot be read; "": it can
	Now     time.Time
}

// Look calls each with what is seen now and after each change, until ctx or the page ends. job is
// shown at length; "": none is.
func (p *Page) Look(ctx context.Context, job schema.Job, each func(View)) {
	ctx, cancel := p.hub.scope.Context(ctx)
	defer cancel()
	v := p.hub.join(job)
	defer p.hub.leave(v)
	set := map[string]json.RawMessage{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-v.wake:
		}
		m := p.hub.changes(v)
		for key, piece := range m.Set {
			if set[key] = piece; string(piece) == "null" {
				delete(set, key)
			}
		}
		each(viewOf(job, m, set))
	}
}

// viewOf reads the pieces of a viewer.
func viewOf(job schema.Job, m message, set map[string]json.RawMessage) View {
	view := View{Problem: m.Problem, Now: time.UnixMilli(m.Now)}
	for key, piece := range set {
		var s overview.Summary
		if strings.HasPrefix(key, "jobs/") && json.Unmarshal(piece, &s) == nil {
			view.Jobs = append(view.Jobs, s)
		}
	}
	overview.WorstFirst(view.Jobs)
	if piece, ok := set["health"]; ok {
		var h Health
		if json.Unmarshal(piece, &h) == nil {
			view.Health = &h
		}
	}
	own := "job/" + string(job) + "/"
	o := overviewOf(func(name string) json.RawMessage { return set[own+name] })
	if o == nil {
		return view
	}
	for _, s := range view.Jobs {
		if s.Job == job {
			o.Summary = s
		}
	}
	view.Job = o
	return view
}
