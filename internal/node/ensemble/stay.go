package ensemble

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/worker"
	"github.com/elasticd/elastic/pkg/roles"
)

// ErrCannotStay: the servers of this node do not stay for another generation.
var ErrCannotStay = errors.New("the servers cannot stay")

// pauseGrace is how long trainers may take to end when the world changes. They save nothing,
// because the servers keep the tables.
const pauseGrace = 3 * time.Second

// Serving is closed when every process of this node has started: from then on its servers can stay.
// It is nil on a node without servers.
func (e *Ensemble) Serving() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.ContainsFunc(e.c.Tasks, serves) {
		return nil
	}
	return e.serving
}

// Kept is how many ports, counted from the last one of this node, stay in use while its servers
// stay: those of servers, and that of gloo's rendezvous.
func (e *Ensemble) Kept() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.chosen(serves)) + 1
}

// Pause ends the trainers of this generation, and keeps the servers. It fails with ErrCannotStay if
// a process has ended, or was not started yet.
func (e *Ensemble) Pause(ctx context.Context) error {
	e.mu.Lock()
	ended := slices.ContainsFunc(e.members, func(m *member) bool { return m.ended })
	if e.ending || e.paused || ended || !e.begun || len(e.chosen(serves)) == 0 {
		e.mu.Unlock()
		return ErrCannotStay
	}
	e.paused = true
	e.runs.Add(1) // keeps close waiting until Continue or finish, even if all servers end
	for _, m := range e.chosen(trains) {
		m.retired = true
	}
	e.end()
	e.mu.Unlock()
	return callAll(e.running(trains), func(g *worker.Group) error { return g.Stop(ctx, pauseGrace) })
}

// Continue starts the generation of c: the servers here stay, and its trainers are started, until
// its Life ends. It fails with ErrCannotStay if the servers here are not those of c. A server of
// another node that has a new port was started anew, and its tables are older than those here. Then
// the new generation fails, and all processes start again.
func (e *Ensemble) Continue(c Config) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	stay := e.chosen(serves)
	ended := slices.ContainsFunc(stay, func(m *member) bool { return m.ended })
	if !e.paused || ended || !slices.EqualFunc(stay, tasksOf(c, serves), func(m *member, t roles.Task) bool {
		return m.task.Same(t)
	}) {
		return ErrCannotStay
	}
	before := e.c.Team.Found(roles.Server)
	over, end := c.Life.Context(context.Background())
	e.setGeneration(c, end, stay)
	for _, m := range stay { // their logs say which generation this is
		m.group.Move(m.local)
		m.group.Continue(c.Spec.Generation, []int{m.task.Index}, c.Spec.WorldSize)
	}
	if slices.Equal(before, c.Team.Found(roles.Server)) {
		e.runs.Go(func() { e.startOthers(over) })
	} else {
		x := worker.Exit{Rank: stay[0].task.Index, Code: 1,
			Note: "a server of another node was started anew"}
		e.runs.Go(func() { e.passExit(stay[0], x) })
	}
	e.runs.Done()
	return nil
}

// tasksOf returns the tasks of this node that satisfy which.
func tasksOf(c Config, which func(roles.Task) bool) []roles.Task {
	return slices.DeleteFunc(slices.Clone(c.Tasks), func(t roles.Task) bool { return !which(t) })
}
