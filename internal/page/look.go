package page

import (
	"context"
	"time"

	"github.com/elasticd/elastic/internal/overview"
	"github.com/elasticd/elastic/pkg/schema"
)

// View is what a viewer sees, for programs. They must not change it.
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
	for {
		select {
		case <-ctx.Done():
			return
		case <-v.wake:
		}
		each(p.hub.view(job))
	}
}

// view returns what a viewer of job sees.
func (h *hub) view(job schema.Job) View {
	h.mu.Lock()
	defer h.mu.Unlock()
	view := View{Job: h.jobs[job], Problem: h.text, Now: time.Now()}
	for _, p := range h.pieces {
		switch v := p.value.(type) {
		case overview.Summary:
			view.Jobs = append(view.Jobs, v)
		case Health:
			view.Health = &v
		}
	}
	overview.WorstFirst(view.Jobs)
	return view
}
