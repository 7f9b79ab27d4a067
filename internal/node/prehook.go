package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/elasticd/elastic/internal/launch"
	"github.com/elasticd/elastic/internal/worker/proc"
	"github.com/elasticd/elastic/pkg/machines"
	"github.com/elasticd/elastic/pkg/schema"
)

// PreHook is a command that decides whether this node can run workers. It runs before the node
// joins (as generation 0), and before the node is ready for a generation. If it fails, this node
// leaves, and the others go on.
type PreHook struct {
	Command string // for sh -c; "": there is none
	Limit   time.Duration
	Env     []string // variables with which an elastic command finds the server
}

// preHookRun is the pre-hook that runs now. At most one runs, because the agent prepares one
// generation at a time.
type preHookRun struct {
	mu   sync.Mutex // held while it runs
	now  sync.Mutex // guards stop
	stop context.CancelFunc
}

// begin waits until no other pre-hook runs. It returns the context of the next one, and the
// function that ends it.
func (h *preHookRun) begin(ctx context.Context) (context.Context, func()) {
	h.mu.Lock()
	ctx, cancel := context.WithCancel(ctx)
	h.now.Lock()
	h.stop = cancel
	h.now.Unlock()
	return ctx, func() {
		cancel()
		h.mu.Unlock()
	}
}

// interrupt ends the pre-hook that runs, and waits until it has ended. The interrupted pre-hook
// does not count as failed.
func (h *preHookRun) interrupt() {
	h.now.Lock()
	if h.stop != nil {
		h.stop()
	}
	h.now.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
}

// preHookLog is the file in the log directory with the output of the pre-hook.
const preHookLog = "prehook.log"

// preHook runs the pre-hook for a generation. The other nodes wait for this one meanwhile.
func (w *workers) preHook(ctx context.Context, g schema.Generation, size int) error {
	h := w.o.PreHook
	if h.Command == "" {
		return nil
	}
	why := fmt.Sprintf("generation %d", g)
	if g == 0 {
		why = "joining"
	}
	env := append(append([]string{}, h.Env...), "ELASTIC_JOB_ID="+string(w.o.Job.Name), "ELASTIC_NODE="+
		w.node, fmt.Sprintf("ELASTIC_GENERATION=%d", g), fmt.Sprintf("ELASTIC_WORLD_SIZE=%d", size),
		"ELASTIC_CHECKPOINT_DIR="+w.checkpoints())
	if w.o.PortsHi > 0 {
		env = append(env, fmt.Sprintf("ELASTIC_WORKER_PORTS=%d-%d", w.o.PortsLo, w.o.PortsHi))
	}
	ctx, end := w.preHookRun.begin(ctx)
	defer end()
	stop := w.tellChecking(g)
	err := launch.RunHook(ctx, launch.Hook{Command: h.Command, Limit: h.Limit, Dir: w.o.Dir,
		Log: filepath.Join(w.logs.Dir(), preHookLog),
		Env: proc.MarkOf(w.dir).Environ(launch.Overlay(w.o.Environ, env))}, why)
	stop()
	if _, failed := errors.AsType[*launch.HookFailed](err); failed {
		w.note(machines.Check, err.Error())
		return refused{err, 125}
	}
	return err
}

// tellChecking reports to the other nodes every second that the pre-hook runs, so that they wait.
// The caller ends it with stop.
func (w *workers) tellChecking(g schema.Generation) (stop func()) {
	if g == 0 {
		return func() {} // this node is not registered, so no other node waits for it
	}
	began := time.Now()
	ended, reported := make(chan struct{}), make(chan struct{})
	w.effects.Go(func(context.Context) {
		defer close(reported)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				w.doing.Nothing()
				return
			case <-tick.C:
				w.doing.Moving("checking", int64(time.Since(began).Seconds()),
					int64(w.o.PreHook.Limit.Seconds()))
			}
		}
	})
	return func() {
		close(ended)
		<-reported
	}
}
