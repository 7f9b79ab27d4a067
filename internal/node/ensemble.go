package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elasticd/elastic/internal/agent/action"
	"github.com/elasticd/elastic/internal/launch"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/internal/worker"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/roles"
)

// processes is what a node can do with the processes of a generation: one worker.Group of trainers,
// or an ensemble.
type processes interface {
	Exits() <-chan worker.Exit
	Done() <-chan struct{}
	PIDs() []int
	Ask(ctx context.Context, d worker.Drain) error
	Stop(ctx context.Context, grace time.Duration) error
	Continue(generation uint64, ranks []int, worldSize int)
}

// serversLimit is how long the servers of all nodes may take to listen.
const serversLimit = 2 * time.Minute

// aloneAgain is how long a trainer that failed waits before it is started again alone, the second
// time and later.
const aloneAgain = time.Second

// ensemble is the processes of this node in a job with roles, each a group of its own. Servers and
// coordinators start first; heter workers and trainers when every server of the job listens. A
// trainer that fails is started again alone while the others go on. The servers end after the
// trainers.
type ensemble struct {
	w     *workers
	in    launch.Inputs
	spec  worker.Spec // of all processes
	limit int         // how often trainers are started again alone

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

// startEnsemble starts the servers of this node, or nothing. The others follow.
func (w *workers) startEnsemble(ctx context.Context, in launch.Inputs) (*ensemble, error) {
	spec, err := w.launched(in)
	if err != nil {
		return nil, err
	}
	e := &ensemble{w: w, in: in, spec: spec, limit: w.job.Load().Rules.MaxRestarts,
		exits: make(chan worker.Exit, len(in.Tasks)), done: make(chan struct{}), groups: map[int]*worker.Group{}}
	e.over, e.end = context.WithCancel(w.ctx)
	names := map[int]string{}
	var first []int
	for local, t := range in.Tasks {
		names[local] = t.Log()
		switch t.Role {
		case roles.Trainer:
			e.left++
		case roles.Server, roles.Coordinator:
			first = append(first, local)
		}
	}
	w.logs.Rename(names)
	for _, local := range first {
		if err = e.free(local); err == nil {
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
	go func() {
		e.runs.Wait()
		e.end()
		e.tellEnd()
		close(e.exits)
		close(e.done)
	}()
	return e, nil
}

// abandon ends what was started where the rest cannot be.
func (e *ensemble) abandon() {
	e.end()
	for _, g := range e.running(nil) {
		_ = g.Stop(context.Background(), 0) // nil, or it would not return
	}
}

// free refuses the port of a server that another process listens at.
func (e *ensemble) free(local int) error {
	t := e.in.Tasks[local]
	if t.Role != roles.Server {
		return nil
	}
	if err := launch.Free(e.in.Team.Endpoint(t)); err != nil {
		return fmt.Errorf("%s cannot listen: %w", t, err)
	}
	return nil
}

// begin starts one process, unless the processes are to end.
func (e *ensemble) begin(ctx context.Context, local int) (*worker.Group, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ending {
		return nil, context.Canceled
	}
	spec, t := e.spec, e.in.Tasks[local]
	spec.First, spec.Ranks, spec.Env = local, []int{t.Index}, e.spec.Env[local:local+1]
	if t.Role != roles.Trainer {
		spec.Name = t.String()
	}
	if e.spec.Args != nil {
		spec.Args = e.spec.Args[local : local+1]
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
func (e *ensemble) startOthers() {
	var others []int
	for local, t := range e.in.Tasks {
		if t.Role == roles.Trainer || t.Role == roles.Heter {
			others = append(others, local)
		}
	}
	slices.SortStableFunc(others, func(a, b int) int { // a heter worker is listened for by the trainers
		return roleOrder(e.in.Tasks[a]) - roleOrder(e.in.Tasks[b])
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
			e.exits <- worker.Exit{LocalRank: local, Rank: e.in.Tasks[local].Index, Code: 143, Ours: true, At: time.Now()}
		default:
			e.exits <- worker.Exit{LocalRank: local, Rank: e.in.Tasks[local].Index, Code: startCode(err),
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

// serversListen waits until every server of the job accepts connections.
func (e *ensemble) serversListen() error {
	ctx, cancel := context.WithTimeout(e.over, serversLimit)
	defer cancel()
	tell := time.NewTicker(10 * time.Second)
	defer tell.Stop()
	for _, at := range e.in.Team.All(roles.Server) {
		for !listens(ctx, at) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("server %s did not listen within %s", at, serversLimit)
			case <-tell.C:
				e.w.notice(fmt.Sprintf("the trainers wait for server %s to listen", at))
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	return nil
}

func listens(ctx context.Context, at string) bool {
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(ctx, "tcp", at)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// follow passes the end of one process on, once nothing of it is left. A trainer that failed is
// started again before.
func (e *ensemble) follow(local int) {
	t := e.in.Tasks[local]
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
func (e *ensemble) startAgain(t roles.Task, x worker.Exit) bool {
	asks := rendezvous.Failure{Code: x.Code, Signal: x.Signal}.AsksForRestart()
	e.mu.Lock()
	if x.Code == 0 || x.Ours || asks || e.ending || e.again >= e.limit {
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
	e.w.notice(fmt.Sprintf("%s ended with %s; it is started again alone (%d of %d), the others go on", t, how, again,
		e.limit))
	select {
	case <-e.over.Done():
		return false
	case <-time.After(time.Duration(again-1) * aloneAgain):
		return true
	}
}

func (e *ensemble) group(local int) *worker.Group {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.groups[local]
}

// running are the groups of the processes that which chooses; nil: of all.
func (e *ensemble) running(which func(roles.Task) bool) []*worker.Group {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []*worker.Group
	for local, t := range e.in.Tasks {
		if g := e.groups[local]; g != nil && (which == nil || which(t)) {
			all = append(all, g)
		}
	}
	return all
}

// finish has no process start any more.
func (e *ensemble) finish() {
	e.mu.Lock()
	e.ending = true
	e.mu.Unlock()
	e.end()
}

func (e *ensemble) Exits() <-chan worker.Exit { return e.exits }
func (e *ensemble) Done() <-chan struct{}     { return e.done }

// Continue is never called: these processes do not stay for another generation.
func (e *ensemble) Continue(uint64, []int, int) {}

// PIDs are the processes that run.
func (e *ensemble) PIDs() []int {
	var pids []int
	for _, g := range e.running(nil) {
		pids = append(pids, g.PIDs()...)
	}
	return pids
}

// trains tells the trainers and heter workers from the servers that they save to.
func trains(t roles.Task) bool { return t.Role == roles.Trainer || t.Role == roles.Heter }

func serves(t roles.Task) bool { return !trains(t) }

// Ask asks trainers and heter workers to save and end. The servers are needed for that.
func (e *ensemble) Ask(ctx context.Context, d worker.Drain) error {
	e.finish()
	groups := e.running(trains)
	errs := make([]error, len(groups))
	var asked sync.WaitGroup
	for i, g := range groups {
		asked.Go(func() { errs[i] = g.Ask(ctx, d) })
	}
	asked.Wait()
	return errors.Join(errs...)
}

// Stop ends the trainers within the grace, and then the servers.
func (e *ensemble) Stop(ctx context.Context, grace time.Duration) error {
	e.finish()
	for _, part := range []func(roles.Task) bool{trains, serves} {
		groups := e.running(part)
		errs := make([]error, len(groups))
		var stopped sync.WaitGroup
		for i, g := range groups {
			stopped.Go(func() { errs[i] = g.Stop(ctx, grace) })
		}
		stopped.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		grace = min(grace, action.ShortGrace)
	}
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop the processes of generation %d: %w", e.spec.Generation, context.Cause(ctx))
	}
}

// tellEnd says what Paddle's launcher says when the servers were ended because the trainers are
// through.
func (e *ensemble) tellEnd() {
	e.mu.Lock()
	left := e.left
	e.mu.Unlock()
	if left > 0 {
		return
	}
	if !e.w.o.Launcher.Announce {
		servers := len(slices.DeleteFunc(slices.Clone(e.in.Tasks), trains))
		if servers > 0 {
			e.w.notice("the trainers are through; ended " + phrase.Count(servers, "server"))
		}
		return
	}
	e.w.raw(launch.AnnounceEnd(time.Now()))
	e.w.raw(launch.AnnounceKilled(time.Now()))
}
