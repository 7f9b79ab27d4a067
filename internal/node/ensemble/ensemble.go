// Package ensemble runs the processes of one node in a job with parameter servers. It starts the
// servers first, and the trainers when every server listens. It restarts a failed trainer alone.
// Servers can stay while the trainers of one generation end and those of the next one start.
package ensemble

import (
	"context"
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
	Life  *scope.Scope // of the agent: no process starts after it has ended
	Spec  worker.Spec  // of all processes, by local rank
	Tasks []roles.Task // what each process does, by local rank
	Team  *roles.Team  // the processes of all nodes

	Restarts    int           // restarts of single trainers of this node
	RefillAfter time.Duration // all restarts are restored after this time without a failed trainer

	Notice  func(string)
	Through func([]roles.Task) // is called when the trainers here are done and the other tasks ended
}

// Ensemble is the processes of this node, each in a worker.Group of its own. Servers start
// first. Heter workers and trainers start when every server of the job listens.
// A failed trainer is restarted alone while the others go on. The servers end after the trainers.
type Ensemble struct {
	exits   chan worker.Exit
	done    chan struct{}
	serving chan struct{} // closed when all processes of the first generation have started
	runs    sync.WaitGroup

	mu        sync.Mutex // guards what follows
	c         Config
	members   []*member          // by local rank
	end       context.CancelFunc // ends the waits of this generation
	alone     allowance          // restarts of single trainers
	left      int                // trainers that have not ended with exit code 0
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
	retired bool          // it was ended for the next generation: its exit is not passed on
	ended   bool          // its exit was passed on
}

// Start starts the servers of this node; if one fails, it ends the others and returns the error.
// The other processes start in the background, until the Life of c ends.
func Start(ctx context.Context, c Config) (*Ensemble, error) {
	e := &Ensemble{exits: make(chan worker.Exit, len(c.Tasks)), done: make(chan struct{}),
		serving: make(chan struct{})}
	over, end := c.Life.Context(context.Background())
	e.setGeneration(c, end, nil)
	for _, m := range e.members {
		if trains(m.task) {
			continue
		}
		err := checkPortFree(c.Team, m.task)
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
			e.runs.Go(func() { e.awaitExit(over, m) })
		}
	}
	e.runs.Go(func() { e.startOthers(over) })
	go e.close()
	return e, nil
}

// setGeneration sets the generation to that of c. The members in stay keep their processes. The caller
// holds mu, or no process has started yet.
func (e *Ensemble) setGeneration(c Config, end context.CancelFunc, stay []*member) {
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

// close waits for the last process, and closes Exits and Done.
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

// abandon ends the servers that were started before one failed to start.
func (e *Ensemble) abandon() {
	e.finish()
	for _, g := range e.running(nil) {
		_ = g.Stop(context.Background(), 0) // Stop fails only with its context, which has no end
	}
}

// checkPortFree fails if another process listens on the port of a server.
func checkPortFree(team *roles.Team, t roles.Task) error {
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
