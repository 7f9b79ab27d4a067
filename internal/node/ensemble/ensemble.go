// Package ensemble runs the processes of one node in a job with parameter servers: servers first,
// trainers when every server listens, and a trainer that fails again alone. Servers can stay while
// the trainers of one generation end and those of the next one start.
package ensemble

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/elasticd/elastic/internal/launch"
	"github.com/elasticd/elastic/internal/scope"
	"github.com/elasticd/elastic/internal/worker"
	"github.com/elasticd/elastic/pkg/roles"
)

// Config is the processes of this node in one generation.
type Config struct {
	Life  *scope.Scope // of the agent: nothing starts after it
	Spec  worker.Spec  // of all processes, by local rank
	Tasks []roles.Task // what each process does, by local rank
	Team  *roles.Team  // the processes of all nodes

	Restarts    int           // how often trainers of this node are started again alone
	RefillAfter time.Duration // without a failure of a trainer gives all of them back

	Notice  func(string)
	Through func([]roles.Task) // the trainers of this node are through, and its other tasks were ended
}

// Ensemble is the processes of this node, each a group of its own. Servers and coordinators start
// first; heter workers and trainers when every server of the job listens. A trainer that fails is
// started again alone while the others go on. The servers end after the trainers.
type Ensemble struct {
	exits   chan worker.Exit
	done    chan struct{}
	serving chan struct{} // closed when all processes of the first generation have started
	runs    sync.WaitGroup

	mu        sync.Mutex // guards what follows
	c         Config
	members   []*member          // by local rank
	end       context.CancelFunc // of what waits in this generation
	alone     allowance          // of trainers that are started again
	left      int                // trainers that are not through
	listening bool               // every server of the job listens
	begun     bool               // every process of this generation was started
	paused    bool               // the servers wait for the next generation
	ending    bool               // no process starts any more
}

// member is one process, over all its starts.
type member struct {
	task    roles.Task
	local   int           // its local rank in the newest generation
	group   *worker.Group // nil: it was not started yet
	again   int           // how often it was started again alone
	retired bool          // it ended for the next generation, which is no news
	ended   bool          // its end was passed on
}

// Start starts the servers of this node, or nothing. The others follow, until the Life of c ends.
func Start(ctx context.Context, c Config) (*Ensemble, error) {
	e := &Ensemble{exits: make(chan worker.Exit, len(c.Tasks)), done: make(chan struct{}),
		serving: make(chan struct{})}
	over, end := c.Life.Context(context.Background())
	e.enter(c, end, nil)
	for _, m := range e.members {
		if trains(m.task) {
			continue
		}
		err := free(c.Team, m.task)
		if err == nil {
			err = e.begin(ctx, m)
		}
		if err != nil {
			e.abandon()
			return nil, err
		}
	}
	for _, m := range e.members {
		if !trains(m.task) {
			e.runs.Go(func() { e.follow(over, m) })
		}
	}
	e.runs.Go(func() { e.startOthers(over) })
	go e.close()
	return e, nil
}

// enter begins the generation of c. The members of stay are in it already. mu is held, or nothing
// runs yet.
func (e *Ensemble) enter(c Config, end context.CancelFunc, stay []*member) {
	e.c, e.end, e.alone, e.left, e.listening, e.begun, e.paused = c, end, allowance{}, 0, false, false, false
	e.members = make([]*member, len(c.Tasks))
	names := map[int]string{}
	for local, t := range c.Tasks {
		names[local] = t.Log()
		if t.Role == roles.Trainer {
			e.left++
		}
		e.members[local] = &member{task: t, local: local}
		if at := slices.IndexFunc(stay, func(m *member) bool { return m.task.Same(t) }); at >= 0 {
			e.members[local] = stay[at]
			stay[at].local, stay[at].task = local, t
		}
	}
	c.Spec.Logs.Rename(names)
}

// close waits for the last process, and passes that on.
func (e *Ensemble) close() {
	e.runs.Wait()
	e.mu.Lock()
	e.end()
	c, left := e.c, e.left
	e.mu.Unlock()
	isTrainer := func(t roles.Task) bool { return t.Role == roles.Trainer }
	if left == 0 && slices.ContainsFunc(c.Tasks, isTrainer) {
		c.Through(c.Tasks)
	}
	close(e.exits)
	close(e.done)
}

// abandon ends what was started where the rest cannot be.
func (e *Ensemble) abandon() {
	e.finish()
	for _, g := range e.running(nil) {
		_ = g.Stop(context.Background(), 0) // nil, or it would not return
	}
}

// free refuses the port of a server that another process listens at.
func free(team *roles.Team, t roles.Task) error {
	if t.Role != roles.Server {
		return nil
	}
	if err := launch.Free(team.Endpoint(t)); err != nil {
		return fmt.Errorf("%s cannot listen: %w", t, err)
	}
	return nil
}

// begin starts one process, unless the processes are to end.
func (e *Ensemble) begin(ctx context.Context, m *member) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ending || m.retired {
		return context.Canceled
	}
	spec := e.c.Spec
	spec.First, spec.Ranks, spec.Env = m.local, []int{m.task.Index}, spec.Env[m.local:m.local+1]
	if m.task.Role != roles.Trainer {
		spec.Name = m.task.String()
	}
	if spec.Args != nil {
		spec.Args = spec.Args[m.local : m.local+1]
	}
	if m.again > 0 {
		restarted := fmt.Sprintf("ELASTIC_RESTARTED=%d", m.again)
		spec.Env = [][]string{launch.Overlay(spec.Env[0], []string{restarted})}
	}
	spec.CPUs, spec.Lead = nil, 0
	g, err := worker.Start(ctx, spec)
	if err == nil {
		m.group = g
	}
	return err
}

// startCode is the exit status of a process that could not be started.
func startCode(err error) int {
	switch {
	case errors.Is(err, worker.ErrNotFound):
		return 127
	case errors.Is(err, worker.ErrNotExecutable):
		return 126
	}
	return 125
}
