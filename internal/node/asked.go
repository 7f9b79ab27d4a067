package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/elasticd/elastic/internal/worker/proc"
)

// askedLimit is how long after workers were asked to stop the reason is said for which they may not.
const askedLimit = 3 * time.Second

// sayWhyTheyRun says why workers that were asked to stop may run on until they are killed: a library has
// taken SIGTERM from the script.
func (g *group) sayWhyTheyRun(ctx context.Context, grace time.Duration) {
	select {
	case <-time.After(min(askedLimit, grace)):
	case <-g.Done():
		return
	case <-ctx.Done():
		return
	}
	if slices.ContainsFunc(g.g.PIDs(), func(pid int) bool { return proc.Maps(pid, "/jaxlib/") }) {
		g.w.notice(fmt.Sprintf("the workers run on, and are killed %s after they were asked to stop: "+
			"JAX takes SIGTERM; call elastic.jax.should_stop() in each step, or look at $ELASTIC_DRAIN_FILE", grace))
	}
}
