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

// pauseGrace is how long trainers may take to end when the world changes. Nothing of them is saved:
// the tables stay with the servers.
const pauseGrace = 3 * time.Second

// Serving is closed when every process of this node has started, and its servers can stay from then
// on. On a node without servers it stays open.
func (e *Ensemble) Serving() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.ContainsFunc(e.c.Tasks, serves) {
		return nil
	}
	return e.serving
}

// Kept is how many of the last ports of this node stay in use while its servers stay: those of
// servers and coordinators, and that of gloo's rendezvous.
func (e *Ensemble) Kept() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.chosen(serves)) + 1
}

// Pause ends the trainers of this generation, and keeps the servers. It fails with ErrCannotStay
// where a process has ended, or was not started yet.
func (e *Ensemble) Pause(ctx context.Context) error {
	e.mu.Lock()
	ended := slices.ContainsFunc(e.members, func(m *member) bool { return m.ended })
	if e.ending || e.paused || ended || !e.begun || len(e.chosen(serves)) == 0 {
		e.mu.Unlock()
		return ErrCannotStay
	}
	e.paused = true
	e.runs.Add(1) // no end before Continue or finish, whatever the servers do
	for _, m := range e.chosen(trains) {
		m.retired = true
	}
	e.end()
	e.mu.Unlock()
	return together(e.running(trains), func(g *worker.Group) error { return g.Stop(ctx, pauseGrace) })
}

// Continue enters the generation of c with the servers that are here, and starts its trainers,
// until its Life ends. It fails with ErrCannotStay where the servers here are not those of c. If a
// server of another node is new, which its port shows, its tables are older than those here: that
// is a failure of the new generation, and all start again.
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
	e.enter(c, end, stay)
	for _, m := range stay { // their logs say which generation this is
		m.group.Move(m.local)
		m.group.Continue(c.Spec.Generation, []int{m.task.Index}, c.Spec.WorldSize)
	}
	if slices.Equal(before, c.Team.Found(roles.Server)) {
		e.runs.Go(func() { e.startOthers(over) })
	} else {
		x := worker.Exit{Rank: stay[0].task.Index, Code: 1, At: time.Now(),
			Note: "a server of another node was started anew"}
		e.runs.Go(func() { e.pass(stay[0], x) })
	}
	e.runs.Done()
	return nil
}

func tasksOf(c Config, which func(roles.Task) bool) []roles.Task {
	return slices.DeleteFunc(slices.Clone(c.Tasks), func(t roles.Task) bool { return !which(t) })
}
