package ensemble

import (
	"context"
	"fmt"
	"time"

	"github.com/elasticd/elastic/internal/worker"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/roles"
)

// restartPause is the pause before a failed trainer is restarted alone, times the restarts before it.
// The first restart has no pause.
const restartPause = time.Second

// allowance counts the restarts of single trainers, over all trainers of the node.
type allowance struct {
	used int
	last time.Time // the last failure of a trainer
}

// take spends one restart and returns its number, or 0 if none is left. All restarts are restored
// once no trainer has failed for RefillAfter.
func (a *allowance) take(c *Config, now time.Time) int {
	if now.Sub(a.last) >= c.RefillAfter {
		a.used = 0
	}
	a.last = now
	if a.used >= c.Restarts {
		return 0
	}
	a.used++
	return a.used
}

// awaitExit waits until the process of m has ended completely, and passes its exit on. A failed
// trainer is restarted instead, unless over has ended.
func (e *Ensemble) awaitExit(over context.Context, m *member) {
	for {
		e.mu.Lock()
		g := m.group
		e.mu.Unlock()
		x := <-g.Exits()
		<-g.Done()
		if e.startAgain(over, m, x) && e.begin(over, m) == nil {
			continue
		}
		e.passExit(m, x)
		return
	}
}

// passExit sends the exit of a process to Exits, unless the process was ended for the next generation.
func (e *Ensemble) passExit(m *member, x worker.Exit) {
	e.mu.Lock()
	if m.retired {
		e.mu.Unlock()
		return
	}
	m.ended, x.LocalRank = true, m.local
	switch {
	case m.task.Role == roles.Trainer && x.Code == 0 && !x.Ours:
		e.left--
	case m.task.Role == roles.Server && x.Code == 0 && !x.Ours && !e.listening:
		x.Code, x.Note = 1, "it ended with exit code 0 before every server listened"
	}
	e.mu.Unlock()
	e.exits <- x
}

// startAgain reports whether a process that ended with x is restarted alone. It waits for the pause
// before that restart.
func (e *Ensemble) startAgain(over context.Context, m *member, x worker.Exit) bool {
	asks := rendezvous.Failure{Code: x.Code, Signal: x.Signal}.AsksForRestart()
	e.mu.Lock()
	if m.task.Role != roles.Trainer || x.Code == 0 || x.Ours || asks || e.ending || m.retired {
		e.mu.Unlock()
		return false
	}
	again, c := e.alone.take(&e.c, time.Now()), e.c
	if again == 0 {
		e.mu.Unlock()
		return false
	}
	m.again++
	e.mu.Unlock()
	how := fmt.Sprintf("exit code %d", x.Code)
	if x.Signal != "" {
		how = x.Signal
	}
	c.Notice(fmt.Sprintf("%s ended with %s; it is started again alone (%d of %d), the others go on",
		m.task, how, again, c.Restarts))
	select {
	case <-over.Done():
		return false
	case <-time.After(time.Duration(again-1) * restartPause):
		return true
	}
}
