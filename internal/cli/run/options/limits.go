package options

import (
	"context"
	"syscall"

	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/internal/problem"
)

// Files that a node needs open at most: for itself and the other nodes, and for each of its workers.
const (
	filesOfNode   = 128
	filesOfWorker = 8
)

// addresses is how much address space a process needs: the server maps its database. Below 0.8 GiB no Go
// program starts.
const addresses = 4 << 30

// Fit fails if this node cannot work: it would join, and the workers of the others would stop for a node that
// cannot start its own.
func Fit(ctx context.Context, o *node.Options) error {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		// the runtime of Go raised the soft limit to the hard one
		if err := enoughFiles(limit.Max, o.Job.Slots); err != nil {
			return err
		}
	}
	if syscall.Getrlimit(syscall.RLIMIT_AS, &limit) == nil {
		if err := enoughAddresses(limit.Cur); err != nil {
			return err
		}
	}
	return ownPorts(ctx, o)
}

func enoughAddresses(limit uint64) error {
	if limit >= addresses {
		return nil
	}
	return problem.New(problem.Limits, "this process may have %.1f GiB of address space, and a node needs %d",
		float64(limit)/(1<<30), addresses>>30).
		Because("the limit is that low, by ulimit -v").Cure("ulimit -v unlimited where it is started")
}

func enoughFiles(limit uint64, workers int) error {
	need := filesOfNode + filesOfWorker*workers
	if limit >= uint64(need) {
		return nil
	}
	return problem.New(problem.Limits, "this process may have %d files open, and this node needs %d", limit, need).
		Because("the hard limit of open files is that low, by ulimit -n, a unit or a container").
		Cure("ulimit -n %d where it is started, or LimitNOFILE=%d in its unit", max(need, 1024), max(need, 1024))
}
