package ensemble

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/internal/worker"
	"github.com/elasticd/elastic/pkg/roles"
)

// chosen returns the members whose task satisfies which, by local rank; nil: all. mu is held.
func (e *Ensemble) chosen(which func(roles.Task) bool) (all []*member) {
	for _, m := range e.members {
		if which == nil || which(m.task) {
			all = append(all, m)
		}
	}
	return all
}

// running returns the groups of the processes whose task satisfies which; nil: all.
func (e *Ensemble) running(which func(roles.Task) bool) (all []*worker.Group) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range e.chosen(which) {
		if m.group != nil {
			all = append(all, m.group)
		}
	}
	return all
}

// finish prevents that another process starts.
func (e *Ensemble) finish() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ending = true
	e.end()
	if e.paused {
		e.paused = false
		e.runs.Done()
	}
}

// Exits delivers the exit of each process. It is closed after the last one.
func (e *Ensemble) Exits() <-chan worker.Exit { return e.exits }

// Done is closed when no process is left.
func (e *Ensemble) Done() <-chan struct{} { return e.done }

// Task is what the process of that local rank does.
func (e *Ensemble) Task(local int) roles.Task {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.c.Tasks[local]
}

// PIDs are the processes that run.
func (e *Ensemble) PIDs() []int {
	var pids []int
	for _, g := range e.running(nil) {
		pids = append(pids, g.PIDs()...)
	}
	return pids
}

// trains reports whether a process computes, and is no server.
func trains(t roles.Task) bool { return !serves(t) }

func serves(t roles.Task) bool { return t.Role == roles.Server }

// Ask asks trainers and heter workers to save and end. The servers are needed for that.
func (e *Ensemble) Ask(ctx context.Context, d worker.Drain) error {
	e.finish()
	return callAll(e.running(trains), func(g *worker.Group) error { return g.Ask(ctx, d) })
}

// callAll calls f for all groups at the same time, and joins the errors.
func callAll(groups []*worker.Group, f func(*worker.Group) error) error {
	errs := make([]error, len(groups))
	var calls sync.WaitGroup
	for i, g := range groups {
		calls.Go(func() { errs[i] = f(g) })
	}
	calls.Wait()
	return errors.Join(errs...)
}

// Stop ends the trainers within the grace, and then the servers.
func (e *Ensemble) Stop(ctx context.Context, grace time.Duration) error {
	e.finish()
	for _, part := range []func(roles.Task) bool{trains, serves} {
		err := callAll(e.running(part), func(g *worker.Group) error { return g.Stop(ctx, grace) })
		if err != nil {
			return err
		}
		grace = min(grace, message.ShortGrace)
	}
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop the processes: %w", context.Cause(ctx))
	}
}
