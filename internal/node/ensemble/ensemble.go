// Package ensemble runs the processes of one node in a job with parameter servers: servers first,
// trainers when every server listens, and a trainer that fails again alone.
package ensemble

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elasticd/elastic/internal/launch"
	"github.com/elasticd/elastic/internal/worker"
	"github.com/elasticd/elastic/pkg/roles"
)

// Config is the processes of this node in one generation.
type Config struct {
	Spec     worker.Spec  // of all processes, by local rank
	Tasks    []roles.Task // what each process does, by local rank
	Team     *roles.Team  // the processes of all nodes
	Restarts int          // how often trainers of this node are started again alone

	Notice  func(string)
	Through func(servers int) // the trainers of this node are through, and so many servers were ended
}

// Ensemble is the processes of this node, each a group of its own. Servers and coordinators start
// first; heter workers and trainers when every server of the job listens. A trainer that fails is
// started again alone while the others go on. The servers end after the trainers.
type Ensemble struct {
	c     Config
	exits chan worker.Exit
	done  chan struct{}
	over  context.Context // ends when the processes are asked or told to end
	end   context.CancelFunc
	runs  sync.WaitGroup

	listening atomic.Bool // every server of the job listens

	mu     sync.Mutex // guards what follows
	groups map[int]*worker.Group
	again  int  // how often trainers were started again
	left   int  // trainers that are not through
	ending bool // no process starts any more
}

// Start starts the servers of this node, or nothing. The others follow, until life ends.
func Start(ctx, life context.Context, c Config) (*Ensemble, error) {
	e := &Ensemble{c: c, exits: make(chan worker.Exit, len(c.Tasks)), done: make(chan struct{}),
		groups: map[int]*worker.Group{}}
	e.over, e.end = context.WithCancel(life)
	names := map[int]string{}
	var first []int
	for local, t := range c.Tasks {
		names[local] = t.Log()
		switch t.Role {
		case roles.Trainer:
			e.left++
		case roles.Server, roles.Coordinator:
			first = append(first, local)
		}
	}
	c.Spec.Logs.Rename(names)
	for _, local := range first {
		err := e.free(local)
		if err == nil {
			_, err = e.begin(ctx, local)
		}
		if err != nil {
			e.abandon()
			return nil, err
		}
	}
	for _, local := range first {
		e.runs.Go(func() { e.follow(local) })
	}
	e.runs.Go(e.startOthers)
	go e.close()
	return e, nil
}

// close waits for the last process, and passes that on.
func (e *Ensemble) close() {
	e.runs.Wait()
	e.end()
	e.mu.Lock()
	left := e.left
	e.mu.Unlock()
	isTrainer := func(t roles.Task) bool { return t.Role == roles.Trainer }
	if left == 0 && slices.ContainsFunc(e.c.Tasks, isTrainer) {
		e.c.Through(len(slices.DeleteFunc(slices.Clone(e.c.Tasks), trains)))
	}
	close(e.exits)
	close(e.done)
}

// abandon ends what was started where the rest cannot be.
func (e *Ensemble) abandon() {
	e.end()
	for _, g := range e.running(nil) {
		_ = g.Stop(context.Background(), 0) // nil, or it would not return
	}
}

// free refuses the port of a server that another process listens at.
func (e *Ensemble) free(local int) error {
	t := e.c.Tasks[local]
	if t.Role != roles.Server {
		return nil
	}
	if err := launch.Free(e.c.Team.Endpoint(t)); err != nil {
		return fmt.Errorf("%s cannot listen: %w", t, err)
	}
	return nil
}

// begin starts one process, unless the processes are to end.
func (e *Ensemble) begin(ctx context.Context, local int) (*worker.Group, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ending {
		return nil, context.Canceled
	}
	spec, t := e.c.Spec, e.c.Tasks[local]
	spec.First, spec.Ranks, spec.Env = local, []int{t.Index}, e.c.Spec.Env[local:local+1]
	if t.Role != roles.Trainer {
		spec.Name = t.String()
	}
	if e.c.Spec.Args != nil {
		spec.Args = e.c.Spec.Args[local : local+1]
	}
	if e.again > 0 && t.Role == roles.Trainer {
		restarted := fmt.Sprintf("ELASTIC_RESTARTED=%d", e.again)
		spec.Env = [][]string{launch.Overlay(spec.Env[0], []string{restarted})}
	}
	spec.CPUs, spec.Lead = nil, 0
	g, err := worker.Start(ctx, spec)
	if err == nil {
		e.groups[local] = g
	}
	return g, err
}

// startOthers starts heter workers and trainers once the servers listen.
func (e *Ensemble) startOthers() {
	var others []int
	for local, t := range e.c.Tasks {
		if t.Role == roles.Trainer || t.Role == roles.Heter {
			others = append(others, local)
		}
	}
	slices.SortStableFunc(others, func(a, b int) int { // a heter worker is listened for by the trainers
		return roleOrder(e.c.Tasks[a]) - roleOrder(e.c.Tasks[b])
	})
	err := e.serversListen()
	e.listening.Store(err == nil)
	for _, local := range others {
		if err == nil {
			_, err = e.begin(e.over, local)
		}
		switch {
		case err == nil:
			e.runs.Go(func() { e.follow(local) })
		case e.over.Err() != nil:
			e.exits <- worker.Exit{LocalRank: local, Rank: e.c.Tasks[local].Index, Code: 143, Ours: true, At: time.Now()}
		default:
			e.exits <- worker.Exit{LocalRank: local, Rank: e.c.Tasks[local].Index, Code: startCode(err),
				At: time.Now(), Note: err.Error()}
		}
	}
}

func roleOrder(t roles.Task) int {
	if t.Role == roles.Heter {
		return 0
	}
	return 1
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
