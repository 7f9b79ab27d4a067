// Package run is the commands elastic run, which takes part in a job with this machine, and elastic
// plan.
package run

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/elasticd/elastic/internal/cli/command"
	"github.com/elasticd/elastic/internal/cli/plan"
	"github.com/elasticd/elastic/internal/cli/problem"
	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/internal/phrase"
)

func Command() command.Command {
	return command.Command{Name: "run", Args: "[--] PROGRAM [ARGS…]", Most: -1,
		Usage:  "take part in a job with this machine",
		Action: runAction, File: command.FileAll, Flags: runFlags()}
}

func runFlags() []command.Flag {
	return slices.Concat(plan.Flags(), launchFlags(), roleFlags(), []command.Flag{
		{Name: "np", Arg: "N", Usage: "nodes of the job, or MIN:MAX (1)",
			Same: []string{"nnodes", "num-nodes", "num-machines"}, Env: []string{"ELASTIC_NP", "PADDLE_ELASTIC_NP",
				"PET_NNODES"}},
		{Name: "nproc-per-node", Arg: "N", Usage: "workers on each node; auto, gpu, xpu, npu or cpu (1)",
			Same: []string{"num-gpus"}, Env: []string{"ELASTIC_NPROC_PER_NODE", "PADDLE_ELASTIC_NPROC_PER_NODE",
				"PET_NPROC_PER_NODE"}},
		{Name: "job-id", Arg: "JOB", Usage: "the job", Same: []string{"rdzv-id"},
			Env: []string{"ELASTIC_JOB_ID", "PADDLE_ELASTIC_JOB_ID", "PET_RDZV_ID", "SLURM_JOB_ID"}},
		{Name: "again", Kind: command.Boolean, Usage: "begin a job that is done anew, from scratch", Once: true},
		{Name: "dry-run", Kind: command.Boolean, Usage: "show the world and the workers' environment; start nothing",
			Once: true},
		{Name: "other-program", Kind: command.Boolean,
			Usage: "run another program than the nodes of the job that are here", Once: true},
		{Name: "host", Arg: "ADDRESS", Usage: "of this machine, that other nodes reach", Same: []string{"local-addr"},
			Env: []string{"ELASTIC_HOST", "PADDLE_ELASTIC_HOST", "PET_LOCAL_ADDR", "POD_IP"}},
		{Name: "node", Arg: "NAME", Usage: "name of this node (host name)"},
		{Name: "log-dir", Arg: "DIR", Usage: "output of the workers (log)",
			Env: []string{"ELASTIC_LOG_DIR", "PADDLE_ELASTIC_LOG_DIR", "PET_LOG_DIR"}},
		{Name: "log-keep", Arg: "N", Usage: "rotated files of each worker that stay (all)"},
		{Name: "split-logs", Kind: command.Boolean, Usage: "stderr in a file of its own, workerlog.N.err"},
		{Name: "state-dir", Arg: "DIR", Usage: "what this machine keeps (~/.local/state/elastic)",
			Env: []string{"ELASTIC_STATE_DIR", "PADDLE_ELASTIC_STATE_DIR"}},
		{Name: "checkpoint-dir", Arg: "DIR", Usage: "where the workers save"},
		{Name: "replicas", Arg: "N", Usage: "copies of a checkpoint (2)"},
		{Name: "keep", Arg: "N", Usage: "checkpoints that stay (3)"},
		{Name: "progress-regex", Arg: "REGEX",
			Usage: "finds step, loss and samples in rank 0's output, by named groups"},
		{Name: "on-nan", Arg: "RULE", Usage: "a loss that is not a number: ignore, fail or rollback[:K] (ignore)"},
		{Name: "save-from", Arg: "rank0|all", Usage: "whose workers write a save (all for shards, else rank0)",
			Values: []string{"rank0", "all"}},
		{Name: "load", Arg: "all|rank0", Usage: "who loads a checkpoint (all)", Values: []string{"all", "rank0"}},
		{Name: "expand", Kind: command.Boolean,
			Usage: "replace {batch_size}, {lr}, {rank}… in ARGS by the worker's ELASTIC_ value"},
		{Name: "max-restarts", Arg: "N", Usage: "after failures of workers (3)", Same: []string{"max-restart"},
			Env: []string{"ELASTIC_MAX_RESTARTS", "PADDLE_ELASTIC_MAX_RESTARTS", "PET_MAX_RESTARTS"}},
		{Name: "last-call", Arg: "TIME", Usage: "for more nodes than MIN (3s)"},
		{Name: "hang-timeout", Arg: "TIME", Usage: "without a sign of life of any worker (none)"},
		{Name: "pre-hook", Arg: "CMD", Usage: "before each start of workers; if it fails this node leaves (none)",
			Env: []string{"ELASTIC_PRE_HOOK"}},
		{Name: "pre-hook-timeout", Arg: "TIME", Usage: "for the pre-hook (60s)"},
		{Name: "wait-timeout", Arg: "TIME", Usage: "without a world, then this node leaves (none)"},
		{Name: "grace", Arg: "TIME", Usage: "to save before a planned stop (30s)"},
		{Name: "finish-timeout", Arg: "TIME", Usage: "for the others when a worker is through (none)"},
		{Name: "lease-ttl", Arg: "TIME", Usage: "of this node's registration (3s)"},
		{Name: "connect-timeout", Arg: "TIME", Usage: "for the first answer of the server (60s)"},
		{Name: "store-cut-limit", Arg: "TIME", Usage: "for a node that the server alone lost (60s)"},
		{Name: "port", Arg: "P", Usage: "of this agent, that other nodes dial (any)"},
		{Name: "worker-ports", Arg: "LO-HI", Usage: "for the workers (any)"},
		{Name: "console", Arg: "0|all|none|RANKS", Usage: "whose output is shown here, by local rank (0)",
			Same: []string{"local-ranks-filter"}, Env: []string{"PET_LOCAL_RANKS_FILTER"}},
		{Name: "tee", Short: "t", Arg: "STD", Usage: "as torchrun's: 0, 1, 2, 3 or RANK:STD,…",
			Env: []string{"PET_TEE"}},
		{Name: "redirects", Short: "r", Arg: "STD", Usage: "as torchrun's", Env: []string{"PET_REDIRECTS"}},
	})
}

func runAction(ctx context.Context, c *command.Call) error {
	var last strings.Builder
	err := takePart(ctx, c, &last)
	problem.Report(&last, err, false)
	leaveMessage(terminationLog, last.String())
	return err
}

// takePart is this node's part in a job. If the job failed or was stopped, it writes why to last.
func takePart(ctx context.Context, c *command.Call, last *strings.Builder) error {
	if len(c.Unused) > 0 {
		c.Out.Say("elastic: not needed, and not used: %s", phrase.List(c.Unused))
	}
	if names := c.FromFile(); len(names) > 0 {
		c.Out.Say("elastic: settings from %s: %s", command.FileName, phrase.List(names))
	}
	o, err := options(c)
	if err != nil {
		return err
	}
	if c.Truth("dry-run") {
		return dryRun(c, &o)
	}
	more, err := signals(c)
	if err != nil {
		return err
	}
	if o.Launcher.Announce && !c.Out.Quiet {
		fmt.Fprint(c.Stderr, arguments(c, &o), sayMode(c, &o))
	}
	signals := make(chan os.Signal, 4)
	defer notify(signals, more)()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := connect(ctx, c, o.ConnectTimeout, signals)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := nextOfSlurm(ctx, c, s, &o); err != nil {
		return err
	}
	o.Store, o.Endpoints, o.Local = s.Store, s.At.Endpoints, s.Local
	o.Shared = s.Shared
	if o.Host == "" {
		o.Reaches = func() string { return target.Towards(s.At.Endpoints) }
		o.Host = cmp.Or(o.Reaches(), "127.0.0.1")
	}
	o.PreHook.Env = leads(c, s)
	stderr := &words{out: c.Stderr, quiet: c.Out.Quiet}
	stderr.after = begun(c, s)
	o.Stdout, o.Stderr, o.Signals = c.Stdout, stderr, signals
	defer showProgress(c, &o, stderr)()
	held := claim(c, &o)
	defer held.Close()
	r := c.Run(ctx, o)
	stderr.close()
	if r.Err == nil && r.Status != 0 {
		last.WriteString(farewell(ctx, s, o.Job.Name))
	}
	return outcome(ctx, c, s, &o, r)
}

// leads is what an elastic command in the pre-hook needs to find the server and what this machine
// keeps.
func leads(c *command.Call, s *target.Server) []string {
	env := []string{"ELASTIC_SERVER=", "ELASTIC_STATE_DIR=" + c.Setting("state-dir").Text}
	if s.Local == nil {
		env[0] += strings.Join(s.At.Endpoints, ",")
	}
	for name, to := range map[string]string{"cacert": "ELASTIC_CACERT", "cert": "ELASTIC_CERT", "key": "ELASTIC_KEY",
		"user": "ELASTIC_USER"} {
		if v := c.Setting(name); v.Given {
			env = append(env, to+"="+v.Text)
		}
	}
	return env
}

// begun tells of a server that had to be started.
func begun(c *command.Call, s *target.Server) string {
	switch {
	case s.Started.PID == 0:
		return ""
	case s.Shared == nil:
		return fmt.Sprintf("elastic: started the local server for user %s (pid %d); your terminals share it; it ends by itself\n",
			c.UserName(), s.Started.PID)
	}
	text := fmt.Sprintf("elastic: started a server at %s (pid %d); it ends by itself\n", s.Shared.Listen, s.Started.PID)
	if host, _, err := net.SplitHostPort(s.Shared.Listen); err == nil && !net.ParseIP(host).IsLoopback() {
		text += "elastic: " + target.OpenTo(s.Shared.Listen) + "\n"
	}
	return text
}

// notify sends the signals of a node to signals, until the result is called. On one of more it
// saves and leaves, as on SIGTERM.
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

// connect is server, but a signal ends it: nothing was begun yet.
func connect(ctx context.Context, c *command.Call, limit time.Duration, signals <-chan os.Signal) (*target.Server,
	error) {
	ctx, cancel := context.WithCancel(ctx)
	type result struct {
		s   *target.Server
		err error
	}
	done := make(chan result, 1)
	go func() {
		s, err := target.Open(ctx, c, target.Join, limit)
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
		return nil, problem.Exit{Status: map[os.Signal]int{syscall.SIGINT: 130, syscall.SIGQUIT: 131,
			syscall.SIGTERM: 75, syscall.SIGHUP: 75}[sig]}
	}
}
