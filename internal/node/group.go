package node

import (
	"context"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/agent/event"
	"github.com/elasticd/elastic/internal/diagnosis"
	"github.com/elasticd/elastic/internal/handover"
	"github.com/elasticd/elastic/internal/launch"
	"github.com/elasticd/elastic/internal/node/ensemble"
	"github.com/elasticd/elastic/internal/worker"
	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/roles"
	"github.com/elasticd/elastic/pkg/schema"
)

// processes is what a node can do with the processes of a generation: one worker.Group of trainers,
// or an ensemble.
type processes interface {
	Exits() <-chan worker.Exit
	Done() <-chan struct{}
	PIDs() []int
	Ask(ctx context.Context, d worker.Drain) error
	Stop(ctx context.Context, grace time.Duration) error
}

// group is the workers of this node, in the agent's words.
type group struct {
	w      *workers
	g      processes
	runDir string
	stay   *handover.Group
	events chan event.Event
	heard  sync.WaitGroup // watchStay

	mu         sync.Mutex        // guards what follows
	began      schema.Generation // for which the trainers were started
	generation schema.Generation
	ports      []int         // of this node
	over       chan struct{} // closed when the generation is over for them
	hangs      <-chan rendezvous.Failure
	exited     bool // one of them has ended
	waits      bool // they were in no generation yet
}

// begin starts what watches the workers in the generation of s. If a worker has exited before, that
// exit is one of the generation before, and this one does not begin (ErrCannotStay).
func (g *group) begin(s action.Start) error {
	world := s.World
	over := make(chan struct{})
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.exited && g.generation != 0 {
		return handover.ErrCannotStay
	}
	g.w.stay.Begin(world)
	if g.waits {
		g.w.warmth.Waits(nil)
	}
	g.waits = false
	g.generation, g.over, g.hangs = world.Generation, over, g.w.watchHangs(world, g.g, over)
	if s.Rank == 0 {
		ended := either(g.g.Done(), over)
		// before a step of this generation ends
		tail := g.w.tail(launch.WorkerDir(g.runDir, uint64(g.began), 0))
		g.w.effects.Go(func(ctx context.Context) { g.w.progress(ctx, ended, world, tail) })
	}
	return nil
}

// await takes the group out of its generation until it is handed another one. newest is the newest
// generation that there is.
func (g *group) await(newest schema.Generation) {
	g.mu.Lock()
	defer g.mu.Unlock()
	none := make(chan rendezvous.Failure)
	close(none)
	g.waits, g.generation, g.over, g.hangs = true, newest, make(chan struct{}), none
}

// either is closed when a or b is.
func either(a, b <-chan struct{}) <-chan struct{} {
	c := make(chan struct{})
	go func() {
		defer close(c)
		select {
		case <-a:
		case <-b:
		}
	}()
	return c
}

// translate passes the exits on, and ends the events.
func (g *group) translate() {
	how := capture.Exited
	for x := range g.g.Exits() {
		process := g.process(x.LocalRank)
		how = max(how, endOf(x, process))
		c := diagnosis.Explain(diagnosis.Ending{Code: x.Code, Signal: x.Signal, Note: x.Note,
			ErrorFile: x.ErrorFile, Output: x.Tail})
		if x.Aborted {
			c.Message, c.Victim = "ended for its stack, as all of a job that hangs", true
		}
		step, nan := g.lastStep(x.LocalRank)
		g.mu.Lock()
		g.exited = true
		generation := g.generation
		g.mu.Unlock()
		g.events <- event.Exited{Generation: generation, WorkerExit: event.WorkerExit{Step: step, NaN: nan,
			Process:   process,
			LocalRank: x.LocalRank,
			Code:      x.Code, Signal: x.Signal, Ours: x.Ours, Message: c.Message, Detail: c.Detail,
			Victim: c.Victim,
			Hang:   x.Aborted}}
	}
	g.w.saves.WorkersEnded(g.Generation(), how)
	g.mu.Lock()
	if g.waits {
		g.w.warmth.Waits(nil)
	}
	g.mu.Unlock()
	g.stay.Close()
	g.heard.Wait()
	close(g.events)
}

// endOf is how a process ended, for the capture of its saves. Servers end by a signal when they are
// not needed any more.
func endOf(x worker.Exit, process rendezvous.Process) capture.WorkerState {
	switch {
	case process.Name != "" && (x.Ours || x.Signal != ""), x.Code == 0:
		return capture.Exited
	case x.Signal != "":
		return capture.Killed
	case event.StatusOfAsked(x.Code):
		return capture.Exited
	}
	return capture.Failed
}

// process is the process of that local rank where it is no trainer.
func (g *group) process(local int) rendezvous.Process {
	e, ok := g.g.(*ensemble.Ensemble)
	if !ok {
		return rendezvous.Process{}
	}
	t := e.Task(local)
	if t.Role == roles.Trainer {
		return rendezvous.Process{}
	}
	return rendezvous.Process{Name: t.String(), Log: t.Log()}
}

// lastStep is the last step that a worker reported, and whether its loss was not a number then, if
// the job has a rule for that.
func (g *group) lastStep(local int) (*int64, bool) {
	g.mu.Lock()
	began := uint64(g.began)
	g.mu.Unlock()
	step, nan := lastProgress(launch.WorkerDir(g.runDir, began, local))
	rule := g.w.job.Load().Rules.OnNaN
	return step, nan && (rule == rendezvous.NaNFails || rule == rendezvous.NaNRollback)
}

// watchStay reports when the workers can stay, when they no longer can, and how much of another
// rank's state they have received. Servers that cannot stay exit.
func (g *group) watchStay() {
	if e, ok := g.g.(*ensemble.Ensemble); ok {
		select {
		case <-e.Serving():
			g.events <- event.Staying{Generation: g.Generation(), Can: true}
		case <-e.Done():
		}
		return
	}
	can, receives := false, false
	for {
		moved := g.stay.Moved()
		now := g.stay.CanStay()
		if now != can {
			can = now
			g.events <- event.Staying{Generation: g.Generation(), Can: can}
		}
		if r := g.stay.Received(); r.Total > 0 {
			receives = true
			g.w.doing.Moving("receiving", r.Done, r.Total)
		} else if receives {
			receives = false
			g.w.doing.Nothing()
		}
		select {
		case <-moved:
		case <-g.g.Done():
			if receives {
				g.w.doing.Nothing()
			}
			return
		}
	}
}

func (g *group) Generation() schema.Generation {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.generation
}

func (g *group) Hangs() <-chan rendezvous.Failure {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hangs
}

func (g *group) Events() <-chan event.Event { return g.events }
func (g *group) Done() <-chan struct{}      { return g.g.Done() }

func (g *group) Ask(reason string, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	g.w.saves.Observe(g.Generation())
	return g.g.Ask(ctx, worker.Drain{Reason: reason, GraceSeconds: grace.Seconds()})
}

func (g *group) Stop(ctx context.Context, grace time.Duration) error {
	g.w.keepPorts(nil)
	return g.g.Stop(ctx, grace)
}

func (g *group) Pause(ctx context.Context) (held *int64, err error) {
	g.mu.Lock()
	waits := g.waits
	g.mu.Unlock()
	if e, ok := g.g.(*ensemble.Ensemble); ok {
		held, err = new(int64(math.MaxInt64)), e.Pause(ctx) // tables are newer than any checkpoint
	} else if waits {
		if err = g.stay.Await(ctx); err == nil {
			g.w.warmth.Waits(g.g.PIDs())
		}
	} else {
		held, err = g.stay.Leave(ctx)
	}
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if e, ok := g.g.(*ensemble.Ensemble); ok {
		g.w.keepPorts(g.ports[len(g.ports)-e.Kept():])
	}
	close(g.over)
	return held, nil
}

func (g *group) Continue(ctx context.Context, s action.Start) error {
	in, err := g.w.inputs(s)
	if err != nil {
		return err
	}
	if e, ok := g.g.(*ensemble.Ensemble); ok {
		return g.continueTeam(e, in, s)
	}
	in.Began = uint64(g.began)
	if err := g.begin(s); err != nil {
		return err
	}
	g.w.record(in)
	var ranks []int
	for k := range in.Workers {
		ranks = append(ranks, in.FirstRank+k)
	}
	g.g.(*worker.Group).Continue(in.Generation, ranks, in.WorldSize)
	g.w.saves.WorkersStarted(s.World.Generation, g.g.PIDs)
	return g.stay.Hand(in.Generation, environs(in))
}

// continueTeam starts the trainers of another generation beside the servers that stay.
func (g *group) continueTeam(e *ensemble.Ensemble, in launch.Inputs, s action.Start) error {
	in.ServersStay = true
	c, err := g.w.team(in)
	if err != nil {
		return err
	}
	g.w.usePorts(s.Ports)
	g.mu.Lock()
	g.began, g.ports = s.World.Generation, s.Ports
	g.mu.Unlock()
	if err := g.begin(s); err != nil {
		return err
	}
	g.w.saves.WorkersStarted(s.World.Generation, g.g.PIDs)
	return e.Continue(c)
}

// environs is what the workers of a node are given in another generation, by local rank.
func environs(in launch.Inputs) (all []map[string]string) {
	for _, given := range launch.Given(in) {
		env := map[string]string{}
		for _, kv := range given {
			name, value, _ := strings.Cut(kv, "=")
			env[name] = value
		}
		all = append(all, env)
	}
	return all
}
