package worker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/worker/proc"
)

// askedLimit is how long after workers were asked to stop the reason is looked for which keeps them.
const askedLimit = 3 * time.Second

// Running are workers that may run.
type Running interface {
	PIDs() []int
	Done() <-chan struct{}
}

// SayWhyTheyRun says why workers that were asked to stop may run on until they are killed: a library has
// taken SIGTERM from the script. It says nothing where they end soon.
func SayWhyTheyRun(ctx context.Context, workers Running, grace time.Duration, say func(string)) {
	select {
	case <-time.After(min(askedLimit, grace)):
	case <-workers.Done():
		return
	case <-ctx.Done():
		return
	}
	if !slices.ContainsFunc(workers.PIDs(), func(pid int) bool { return proc.Maps(pid, "/jaxlib/") }) {
		return
	}
	say(fmt.Sprintf("the workers run on, and are killed %s after they were asked to stop: "+
		"JAX takes SIGTERM; call elastic.jax.should_stop() in each step, or look at $ELASTIC_DRAIN_FILE", grace))
}
