package node

import (
	"context"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/elasticd/elastic/internal/agent/message"
	"github.com/elasticd/elastic/internal/diagnosis"
	"github.com/elasticd/elastic/internal/handover"
	"github.com/elasticd/elastic/internal/launch"
	"github.com/elasticd/elastic/internal/node/ensemble"

	"github.com/elasticd/elastic/internal/progress"
	"github.com/elasticd/elastic/internal/worker"
	"github.com/elasticd/elastic/pkg/checkpoint/capture"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/txn"
	"github.com/elasticd/elastic/pkg/roles"
	"github.com/elasticd/elastic/pkg/schema"
)

// processes are the processes of one node in a generation: a worker.Group of trainers, or an
// ensemble.
type processes interface {
	Exits() <-chan worker.Exit
	Done() <-chan struct{}
	PIDs() []int
	Ask(ctx context.Context, d worker.Drain) error
	Stop(ctx context.Context, grace time.Duration) error
}

// group implements agent.Group with the workers of this node.
type group struct {
	w      *workers
	g      processes
	runDir string
	stay   *handover.Group
	events chan message.Event
	heard  sync.WaitGroup // ends with watchStay

	mu         sync.Mutex        // guards what follows
	world      rendezvous.World  // of the newest generation that began
	rank       int               // of this node in it
	began      schema.Generation // the generation in which the trainers were started
	generation schema.Generation
	since      time.Time     // when the workers began it
	ports      []int         // of this node
	over       chan struct{} // closed when their generation is over
	hangs      <-chan rendezvous.Failure
	exited     bool // a worker has ended
	waits      bool // the workers have not been in a generation yet
}

// begin starts to watch the workers in the generation of s. If a worker has exited already, it
// exited in the previous generation, and begin fails with ErrCannotStay.
func (g *group) begin(s message.Start) error {
	world := s.World
	over := make(chan struct{})
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.exited && g.generation != 0 {
		return handover.ErrCannotStay
	}
	g.w.stay.Begin(world)
	g.waits = false
	g.world, g.rank = world, s.Rank
	g.since = time.Now()
	g.generation, g.over, g.hangs = world.Generation, over, g.w.watchHangs(world, g.g, over)
	ended := anyClosed(g.g.Done(), over)
	l := g.lossesOf(world, s.Rank)
	g.w.effects.Go(func(ctx context.Context) { l.Run(ctx, ended) })
	if s.Rank == 0 {
		// the file of an earlier generation must be opened before a step of this one is written
		tail := g.w.tail(launch.WorkerDir(g.runDir, uint64(g.began), 0))
		r := &reporter{w: g.w, world: world, tail: tail, watch: g.w.hangs.Load()}
		g.w.effects.Go(func(ctx context.Context) { r.run(ctx, ended) })
	}
	return nil
}

// lossesOf opens what the workers report, before they make a step of the generation.
func (g *group) lossesOf(world rendezvous.World, rank int) *progress.LossWatch {
	requests := txn.Requests{Store: g.w.store, Job: g.w.o.Job.Name}
	n := &progress.LossWatch{Requests: requests, World: world, Rank: rank, Acts: g.w.job.Load().Rules.ActsOnNaN()}
	for local := range world.Workers(rank) {
		tail := progress.NewJSONTail(progress.FileOf(launch.WorkerDir(g.runDir, uint64(g.began), local)))
		if e := g.w.o.ProgressRegex; e != nil {
			tail = progress.NewLogTail(g.w.logs.Path(local), e)
		}
		n.Tails = append(n.Tails, tail)
	}
	return n
}

// await marks the workers as waiting until Continue gives them a world. newest is the newest
// generation that exists.
func (g *group) await(newest schema.Generation) {
	g.mu.Lock()
	defer g.mu.Unlock()
	none := make(chan rendezvous.Failure)
	close(none)
	g.waits, g.generation, g.over, g.hangs = true, newest, make(chan struct{}), none
}

// anyClosed returns a channel that is closed when a or b is.
func anyClosed(a, b <-chan struct{}) <-chan struct{} {
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

// translate turns each exit of a worker into an event. It closes the events after the last one.
func (g *group) translate() {
	how, looked := capture.Exited, false
	for x := range g.g.Exits() {
		process := g.process(x.LocalRank)
		how = max(how, endOf(x, process))
		c := diagnosis.Explain(diagnosis.Ending{Code: x.Code, Signal: x.Signal, Note: x.Note,
			ErrorFile: x.ErrorFile, Output: x.Tail})
		step, nan := g.lastStep(x.LocalRank)
		g.mu.Lock()
		g.exited = true
		generation, since := g.generation, g.since
		if x.Code != 0 && !x.Ours && !c.Victim && g.world.Generation == generation {
			g.keepOutput(x, process)
		}
		g.mu.Unlock()
		if !looked && !x.Ours && (x.Code != 0 || x.Signal != "") {
			looked = true
			g.w.lookAtDevices(since)
		}
		g.events <- message.Exited{Generation: generation, WorkerExit: message.WorkerExit{Step: step, NaN: nan,
			Process:   process,
			LocalRank: x.LocalRank,
			Code:      x.Code, Signal: x.Signal, Ours: x.Ours, Message: c.Message, Detail: c.Detail,
			Script: c.Script, Victim: c.Victim}}
	}
	g.w.saves.WorkersEnded(g.Generation(), how)
	g.stay.Close()
	g.heard.Wait()
	close(g.events)
}

// keepOutput has the store keep the end of what a failed worker wrote. mu is held.
func (g *group) keepOutput(x worker.Exit, process rendezvous.Process) {
	world, requests := g.world, txn.Requests{Store: g.w.store, Job: g.w.o.Job.Name}
	o := rendezvous.Output{Node: g.w.node, Rank: world.WorkerRank(g.rank, x.LocalRank),
		Process: process.Name, Text: string(x.Tail), Time: time.Now()}
	g.w.effects.Go(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, outputLimit)
		defer cancel()
		_ = requests.KeepOutput(ctx, &world, o) // else it is on the disk of this node
	})
}

// outputLimit is how long the store may take to keep the output of a failed worker.
const outputLimit = 10 * time.Second

// endOf returns how a process ended, for the capture of its saves. A server that ends by a signal
// counts as exited: it is ended when it is no longer needed.
func endOf(x worker.Exit, process rendezvous.Process) capture.WorkerState {
	switch {
	case process.Name != "" && (x.Ours || x.Signal != ""), x.Code == 0:
		return capture.Exited
	case x.Signal != "":
		return capture.Killed
	case message.StatusOfAsked(x.Code):
		return capture.Exited
	}
	return capture.Failed
}

// process returns the name and log of the process of a local rank, empty for a trainer.
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

// lastStep returns the last step that a worker reported, or that at which its loss was not a number.
func (g *group) lastStep(local int) (*int64, bool) {
	g.mu.Lock()
	began := uint64(g.began)
	g.mu.Unlock()
	return progress.LastLoss(launch.WorkerDir(g.runDir, began, local), g.w.job.Load().Rules)
}

// watchStay reports when the workers become able to stay and when they no longer are, and how much
// of another rank's state they have received. Servers that cannot stay exit.
func (g *group) watchStay() {
	if e, ok := g.g.(*ensemble.Ensemble); ok {
		select {
		case <-e.Serving():
			g.events <- message.Staying{Generation: g.Generation(), Can: true}
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
			g.events <- message.Staying{Generation: g.Generation(), Can: can}
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

func (g *group) Events() <-chan message.Event { return g.events }
func (g *group) Done() <-chan struct{}        { return g.g.Done() }

func (g *group) Ask(reason string, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	g.w.saves.Observe(g.Generation())
	g.w.effects.Go(func(ctx context.Context) {
		worker.SayWhyTheyRun(ctx, g.g, grace, g.w.notice)
	})
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
		err = g.stay.Await(ctx)
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

func (g *group) Continue(ctx context.Context, s message.Start) error {
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
	return g.stay.Hand(in.Generation, environs(in))
}

// continueTeam starts the trainers of another generation. The servers stay.
func (g *group) continueTeam(e *ensemble.Ensemble, in launch.Inputs, s message.Start) error {
	in.ServersStay = true
	spec, err := g.w.prepareSpec(in)
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
	return e.Continue(g.w.team(in, spec))
}

// environs returns the variables of each worker in another generation, by local rank.
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
