package ensemble

import (
	"fmt"
	"time"

	"github.com/elasticd/elastic/internal/worker"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/roles"
)

// aloneAgain is how long a trainer that failed waits before it is started again alone, the second
// time and later.
const aloneAgain = time.Second

// follow passes the end of one process on, once nothing of it is left. A trainer that failed is
// started again before.
func (e *Ensemble) follow(local int) {
	t := e.c.Tasks[local]
	for {
		g := e.group(local)
		x := <-g.Exits()
		<-g.Done()
		x.LocalRank = local
		if t.Role == roles.Trainer && e.startAgain(t, x) {
			if _, err := e.begin(e.over, local); err == nil {
				continue
			}
		}
		if t.Role == roles.Trainer && x.Code == 0 && !x.Ours {
			e.mu.Lock()
			e.left--
			e.mu.Unlock()
		}
		if t.Role == roles.Server && !x.Ours && x.Code == 0 && !e.listening.Load() {
			x.Code, x.Note = 1, "it ended with exit code 0 before every server listened"
		}
		e.exits <- x
		return
	}
}

// startAgain reports whether a trainer that ended so is to be started again alone, and waits as long
// as it is to wait.
func (e *Ensemble) startAgain(t roles.Task, x worker.Exit) bool {
	asks := rendezvous.Failure{Code: x.Code, Signal: x.Signal}.AsksForRestart()
	e.mu.Lock()
	if x.Code == 0 || x.Ours || asks || e.ending || e.again >= e.c.Restarts {
		e.mu.Unlock()
		return false
	}
	e.again++
	again := e.again
	e.mu.Unlock()
	how := fmt.Sprintf("exit code %d", x.Code)
	if x.Signal != "" {
		how = x.Signal
	}
	e.c.Notice(fmt.Sprintf("%s ended with %s; it is started again alone (%d of %d), the others go on", t, how, again,
		e.c.Restarts))
	select {
	case <-e.over.Done():
		return false
	case <-time.After(time.Duration(again-1) * aloneAgain):
		return true
	}
}
