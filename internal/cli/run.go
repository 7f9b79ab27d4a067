package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/elasticd/elastic/internal/node"
	"github.com/elasticd/elastic/internal/phrase"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/rendezvous/status"
)

func runCommand() command {
	return command{name: "run", args: "[--] PROGRAM [ARGS…]", most: -1, usage: "take part in a job with this machine", action: runAction, flags: slices.Concat(batchFlags(), launchFlags(), []flag{
		{name: "np", arg: "N", usage: "nodes of the job, or MIN:MAX (1)", same: []string{"nnodes", "num-nodes"}, env: []string{"ELASTIC_NP", "PADDLE_ELASTIC_NP", "PET_NNODES"}},
		{name: "nproc-per-node", arg: "N", usage: "workers on each node; auto, gpu, xpu, npu or cpu (1)", env: []string{"ELASTIC_NPROC_PER_NODE", "PADDLE_ELASTIC_NPROC_PER_NODE", "PET_NPROC_PER_NODE"}},
		{name: "job-id", arg: "JOB", usage: "the job", same: []string{"rdzv-id"},
			env: []string{"ELASTIC_JOB_ID", "PADDLE_ELASTIC_JOB_ID", "PET_RDZV_ID", "SLURM_JOB_ID"}},
		{name: "again", kind: boolean, usage: "begin a job that is done anew, from scratch"},
		{name: "host", arg: "ADDRESS", usage: "of this machine, that other nodes reach", same: []string{"local-addr"}, env: []string{"ELASTIC_HOST", "PADDLE_ELASTIC_HOST", "POD_IP"}},
		{name: "node", arg: "NAME", usage: "name of this node (host name)"},
		{name: "log-dir", arg: "DIR", usage: "output of the workers (log)", env: []string{"ELASTIC_LOG_DIR", "PADDLE_ELASTIC_LOG_DIR", "PET_LOG_DIR"}},
		{name: "log-keep", arg: "N", usage: "rotated files of each worker that stay (all)"},
		{name: "split-logs", kind: boolean, usage: "stderr in a file of its own, workerlog.N.err"},
		{name: "state-dir", arg: "DIR", usage: "what this machine keeps (~/.local/state/elastic)", env: []string{"ELASTIC_STATE_DIR", "PADDLE_ELASTIC_STATE_DIR"}},
		{name: "checkpoint-dir", arg: "DIR", usage: "where the workers save"},
		{name: "replicas", arg: "N", usage: "copies of a checkpoint (2)"},
		{name: "keep", arg: "N", usage: "checkpoints that stay (3)"},
		{name: "progress-regex", arg: "REGEX", usage: "finds step, loss and samples in rank 0's output, by named groups"},
		{name: "on-nan", arg: "RULE", usage: "a loss that is not a number: ignore, fail or rollback[:K] (ignore)"},
		{name: "load", arg: "all|rank0", usage: "who loads a checkpoint (all)"},
		{name: "expand", kind: boolean, usage: "replace {batch_size}, {lr}, {rank}… in ARGS by the worker's ELASTIC_ value"},
		{name: "max-restarts", arg: "N", usage: "after failures of workers (3)", same: []string{"max-restart"}, env: []string{"ELASTIC_MAX_RESTARTS", "PADDLE_ELASTIC_MAX_RESTARTS", "PET_MAX_RESTARTS"}},
		{name: "last-call", arg: "TIME", usage: "for more nodes than MIN (3s)"},
		{name: "hang-timeout", arg: "TIME", usage: "without a sign of life of any worker (none)"},
		{name: "wait-timeout", arg: "TIME", usage: "without a world, then this node leaves (none)"},
		{name: "grace", arg: "TIME", usage: "to save before a planned stop (30s)"},
		{name: "finish-timeout", arg: "TIME", usage: "for the others when a worker is through (none)"},
		{name: "lease-ttl", arg: "TIME", usage: "of this node's registration (3s)"},
		{name: "connect-timeout", arg: "TIME", usage: "for the first answer of the server (60s)"},
		{name: "store-cut-limit", arg: "TIME", usage: "for a node that the server alone lost (60s)"},
		{name: "port", arg: "P", usage: "of this agent, that other nodes dial (any)"},
		{name: "worker-ports", arg: "LO-HI", usage: "for the workers (any)"},
		{name: "console", arg: "0|all|none|RANKS", usage: "whose output is shown here, by local rank (0)", same: []string{"local-ranks-filter"}, env: []string{"PET_LOCAL_RANKS_FILTER"}},
		{name: "tee", short: "t", arg: "STD", usage: "as torchrun's: 0, 1, 2, 3 or RANK:STD,…", env: []string{"PET_TEE"}},
		{name: "redirects", short: "r", arg: "STD", usage: "as torchrun's", env: []string{"PET_REDIRECTS"}},
	})}
}

func runAction(ctx context.Context, c *call) error {
	if len(c.unused) > 0 {
		c.out.say("elastic: not needed, and not used: %s", phrase.List(c.unused))
	}
	o, err := c.options()
	if err != nil {
		return err
	}
	more, err := c.signals()
	if err != nil {
		return err
	}
	if o.Launcher.Announce && !c.out.quiet {
		fmt.Fprint(c.Stderr, c.arguments(&o))
	}
	signals := make(chan os.Signal, 4)
	defer notify(signals, more)()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := c.connect(ctx, o.ConnectTimeout, signals)
	if err != nil {
		return err
	}
	defer s.Close()
	o.Store, o.Endpoints, o.Local = s.Store, s.at.Endpoints, s.local
	o.Shared = s.shared
	if o.Host == "" {
		o.Reaches = func() string { return towards(s.at.Endpoints) }
		o.Host = cmp.Or(o.Reaches(), "127.0.0.1")
	}
	stderr := &words{out: c.Stderr, quiet: c.out.quiet}
	stderr.after = c.begun(s)
	o.Stdout, o.Stderr, o.Signals = c.Stdout, stderr, signals
	held := c.claim(&o)
	defer held.Close()
	r := c.Run(ctx, o)
	stderr.close()
	switch {
	case r.Err == nil && r.Status == 0:
		return nil
	case r.Err == nil && r.Status == Timeout.status() && o.WaitTimeout > 0:
		return c.waited(ctx, s, &o)
	case r.Err == nil && r.Status == CkptLost.status():
		return c.never(ctx, s, &o)
	case r.Err == nil:
		return exit{r.Status}
	}
	e := *Known(r.Err)
	if e.Code == JobDiffers && e.Details["flag"] == "nproc-per-node" && c.setting("gpus").given {
		e.because("%s is one worker for each device, and all nodes of a job have as many", c.setting("gpus"))
	}
	if e.Code == Failed && r.Status != 0 {
		e.Code, e.Status = place(r.Err, &o), r.Status
	}
	return &e
}

// begun tells of a server that had to be started.
func (c *call) begun(s *server) string {
	switch {
	case s.started.PID == 0:
		return ""
	case s.shared == nil:
		return fmt.Sprintf("elastic: started the local server for user %s (pid %d); your terminals share it; it ends by itself\n",
			c.userName(), s.started.PID)
	}
	text := fmt.Sprintf("elastic: started a server at %s (pid %d); it ends by itself\n", s.shared.Listen, s.started.PID)
	if host, _, err := net.SplitHostPort(s.shared.Listen); err == nil && !net.ParseIP(host).IsLoopback() {
		text += "elastic: " + openTo(s.shared.Listen) + "\n"
	}
	return text
}

// notify sends the signals of a node to signals, until the result is called. On one of more it saves and leaves,
// as on SIGTERM.
func notify(signals chan os.Signal, more []os.Signal) (stop func()) {
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	if len(more) == 0 {
		return func() { signal.Stop(signals) }
	}
	others, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(others, more...)
	go func() {
		defer close(done)
		for range others {
			select {
			case signals <- syscall.SIGTERM:
			default: // it has four of them already
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		signal.Stop(others)
		close(others)
		<-done
	}
}

// waited tells a node that would not wait any longer from a job that failed with the same status.
func (c *call) waited(ctx context.Context, s *server, o *node.Options) error {
	e := fail(Timeout, "no world ran here for %s", o.WaitTimeout).because("the server did not answer")
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	snap, err := rendezvous.Read(ctx, s, o.Job.Name)
	if err != nil || snap.Job == nil {
		return e
	}
	if ended(&snap) {
		return exit{e.Status}
	}
	snap.Nodes = append(snap.Nodes, membership.Node{Attempt: snap.Job.Attempt}) // this one: the rest was missing beside it
	return e.because("%s", status.Explain(&snap, c.out.now()).Why)
}

// never tells a job that has lost its checkpoints from others that are not to be started again.
func (c *call) never(ctx context.Context, s *server, o *node.Options) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	snap, err := rendezvous.Read(ctx, s, o.Job.Name)
	if err != nil || snap.Job == nil || !ended(&snap) || snap.World.Outcome == nil || snap.World.Outcome.Why != rendezvous.CheckpointLost {
		return exit{CkptLost.status()}
	}
	return fail(CkptLost, "job %s has no checkpoint that can be read", o.Job.Name).because("%s", snap.World.Outcome.Message).
		cure("bring back a node that has one, and run again; or from scratch: elastic rm %s", o.Job.Name)
}

func (c *call) userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return c.Getenv("USER")
}

// place tells a directory that cannot be used by the path in the error.
func place(err error, o *node.Options) Code {
	bad, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return Failed
	}
	logs, _ := filepath.Abs(o.LogDir)
	switch {
	case o.CheckpointDir != "" && strings.HasPrefix(bad.Path, o.CheckpointDir):
		return CkptDir
	case strings.HasPrefix(bad.Path, o.StateDir):
		return StateDir
	case strings.HasPrefix(bad.Path, logs):
		return LogDir
	}
	return Failed
}

// connect is server, but a signal ends it: nothing was begun yet.
func (c *call) connect(ctx context.Context, limit time.Duration, signals <-chan os.Signal) (*server, error) {
	ctx, cancel := context.WithCancel(ctx)
	type result struct {
		s   *server
		err error
	}
	done := make(chan result, 1)
	go func() {
		s, err := c.server(ctx, join, limit)
		done <- result{s, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			cancel()
		} else {
			context.AfterFunc(ctx, cancel) // the store lives with the caller's context
		}
		return r.s, r.err
	case sig := <-signals:
		cancel()
		if r := <-done; r.s != nil {
			r.s.Close()
		}
		return nil, exit{map[os.Signal]int{syscall.SIGINT: 130, syscall.SIGQUIT: 131, syscall.SIGTERM: 75, syscall.SIGHUP: 75}[sig]}
	}
}
