package ensemble

import (
	"context"
	"fmt"
	"time"

	"github.com/elasticd/elastic/internal/worker"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/roles"
)

// aloneAgain is how long a trainer that failed waits before it is started again alone, the second
// time and later: so long for each time before.
const aloneAgain = time.Second

// allowance counts the restarts of single trainers that are left, for all trainers of the node.
type allowance struct {
	used int
	last time.Time // when a trainer failed last
}

// take spends one restart, and returns which one it is; 0: none is left. Once no trainer has failed
// for RefillAfter all of them are there again.
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

// follow passes the end of one process on, once nothing of it is left. A trainer that failed is
// started again before, until over ends.
func (e *Ensemble) follow(over context.Context, m *member) {
	for {
		e.mu.Lock()
		g := m.group
		e.mu.Unlock()
		x := <-g.Exits()
		<-g.Done()
		if e.startAgain(over, m, x) && e.begin(over, m) == nil {
			continue
		}
		e.pass(m, x)
		return
	}
}

// pass passes the end of one process on, unless it ended for the next generation.
func (e *Ensemble) pass(m *member, x worker.Exit) {
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

// startAgain reports whether a process that ended so is to be started again alone, and waits as
// long as it is to wait.
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
	case <-time.After(time.Duration(again-1) * aloneAgain):
		return true
	}
}
