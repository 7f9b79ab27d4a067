package ensemble

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/worker"
	"github.com/elasticd/elastic/pkg/roles"
)

// serversLimit is how long the trainers wait until the servers of all nodes listen.
const serversLimit = 2 * time.Minute

// startOthers starts heter workers and trainers once the servers listen, until over ends.
func (e *Ensemble) startOthers(over context.Context) {
	e.mu.Lock()
	others, team, notice := e.chosen(trains), e.c.Team, e.c.Notice
	e.mu.Unlock()
	slices.SortStableFunc(others, func(a, b *member) int { // trainers wait for heter workers to listen
		return roleOrder(a.task) - roleOrder(b.task)
	})
	err := serversListen(over, team.All(roles.Server), notice)
	e.mu.Lock()
	e.listening = err == nil
	e.mu.Unlock()
	for _, m := range others {
		if err == nil {
			err = e.begin(over, m)
		}
		switch {
		case err == nil:
			e.runs.Go(func() { e.awaitExit(over, m) })
		case over.Err() != nil:
			e.passExit(m, worker.Exit{Rank: m.task.Index, Code: 143, Ours: true})
		default:
			e.passExit(m, worker.Exit{Rank: m.task.Index, Code: worker.StartCode(err),
				Note: err.Error()})
		}
	}
	if err != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begun = true
	select {
	case <-e.serving:
	default:
		close(e.serving)
	}
}

// roleOrder is the place of a task in the order of starts.
func roleOrder(t roles.Task) int {
	if t.Role == roles.Heter {
		return 0
	}
	return 1
}

// serversListen waits until every server of the job accepts connections.
func serversListen(over context.Context, servers []string, notice func(string)) error {
	ctx, cancel := context.WithTimeout(over, serversLimit)
	defer cancel()
	tell := time.NewTicker(10 * time.Second)
	defer tell.Stop()
	for _, at := range servers {
		for !listens(ctx, at) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("server %s did not listen within %s", at, serversLimit)
			case <-tell.C:
				notice(fmt.Sprintf("the trainers wait for server %s to listen", at))
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	return nil
}

// listens reports whether a process accepts connections at an address.
func listens(ctx context.Context, at string) bool {
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(ctx, "tcp", at)
	if err != nil {
		return false
	}
	c.Close()
	return true
}
