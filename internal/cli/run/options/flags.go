package options

import (
	"slices"

	"github.com/elasticd/elastic/internal/cli/command"
)

// Flags are the flags of elastic run, in the order of help.
func Flags() []command.Flag {
	return slices.Concat(group("job", jobFlags()), group("this node", nodeFlags()), group("batch", PlanFlags()),
		group("checkpoints", checkpointFlags()), group("failures", failureFlags()), group("logs", logFlags()),
		group("server", serverFlags()), apart("torchrun", torchrunFlags()), apart("paddle", paddleFlags()))
}

// group sets what the flags are about.
func group(name string, flags []command.Flag) []command.Flag {
	for i := range flags {
		flags[i].Group = name
	}
	return flags
}

// apart is group for users of another launcher, whose flags help shows by --help=NAME alone.
func apart(name string, flags []command.Flag) []command.Flag {
	for i := range flags {
		flags[i].Apart = true
	}
	return group(name, flags)
}

// jobFlags say which job, and how large it is.
func jobFlags() []command.Flag {
	return []command.Flag{
		{Name: "np", Arg: "N", Usage: "nodes of the job, or MIN:MAX (1)",
			Same: []string{"nnodes", "num-nodes", "num-machines"},
			Env:  []string{"ELASTIC_NP", "PADDLE_ELASTIC_NP", "PET_NNODES", "PADDLE_NNODES"}},
		{Name: "nproc-per-node", Arg: "N", Usage: "workers on each node; auto, gpu, xpu, npu or cpu (1)",
			Same: []string{"num-gpus"},
			Env: []string{"ELASTIC_NPROC_PER_NODE", "PADDLE_ELASTIC_NPROC_PER_NODE",
				"PET_NPROC_PER_NODE", "PADDLE_NPROC_PER_NODE"}},
		{Name: "job-id", Arg: "JOB", Usage: "the job", Same: []string{"rdzv-id"},
			Env: []string{"ELASTIC_JOB_ID", "PADDLE_ELASTIC_JOB_ID", "PET_RDZV_ID", "PADDLE_JOB_ID", "SLURM_JOB_ID"}},
		{Name: "again", Kind: command.Boolean, Once: true,
			Usage: "begin a new job under this name; what was there is moved aside"},
		{Name: "resume", Kind: command.Boolean, Once: true,
			Usage: "go on from the newest checkpoint that the nodes of this name bring"},
		{Name: "done-ok", Kind: command.Boolean, Env: []string{"ELASTIC_DONE_OK"},
			Usage: "end with 0 where the job is done and this node did not train, for schedulers"},
		{Name: "last-call", Arg: "TIME", Usage: "how long MIN nodes wait for more (3s)"},
		{Name: "grace", Arg: "TIME", Usage: "how long workers may save before a planned stop (30s)"},
		{Name: "other-program", Kind: command.Boolean,
			Usage: "run another program than the nodes of the job that are here", Once: true},
		{Name: "dry-run", Kind: command.Boolean,
			Usage: "show the world and the workers' environment; start nothing", Once: true},
	}
}

// nodeFlags are about this node and its workers.
func nodeFlags() []command.Flag {
	return []command.Flag{
		{Name: "node", Arg: "NAME", Usage: "name of this node (host name)"},
		{Name: "host", Arg: "ADDRESS", Usage: "address of this machine that other nodes reach",
			Same: []string{"local-addr"},
			Env:  []string{"ELASTIC_HOST", "PADDLE_ELASTIC_HOST", "PET_LOCAL_ADDR", "POD_IP"}},
		{Name: "port", Arg: "P", Usage: "port of this agent, which other nodes dial (any)"},
		{Name: "worker-ports", Arg: "LO-HI", Usage: "ports for the workers (any)"},
		{Name: "gpus", Arg: "IDS",
			Usage: "devices of this node, one worker for each; as nvidia-smi numbers them",
			Same:  []string{"devices", "xpus", "npus", "gpu-ids"},
			Env:   []string{"ELASTIC_GPUS", "PADDLE_DEVICES"}},
		{Name: "module", Short: "m", Kind: command.Boolean, Usage: "PROGRAM is a Python module",
			Env: []string{"PET_MODULE"}},
		{Name: "warm", Arg: "auto|off",
			Usage:  "start the next workers' Python and imports ahead, while these train (auto)",
			Values: []string{"auto", "off"}},
		{Name: "pre-hook", Arg: "CMD",
			Usage: "run CMD before each start of workers; if it fails this node leaves (none)",
			Env:   []string{"ELASTIC_PRE_HOOK"}},
		{Name: "pre-hook-timeout", Arg: "TIME", Usage: "how long the pre-hook may take (60s)"},
		{Name: "wait-timeout", Arg: "TIME", Usage: "this node leaves after this long without a world (none)"},
		{Name: "state-dir", Arg: "DIR", Usage: "directory of what this machine keeps (~/.local/state/elastic)",
			Env: []string{"ELASTIC_STATE_DIR", "PADDLE_ELASTIC_STATE_DIR"}},
		{Name: "tty", Kind: command.Boolean, Usage: "the only worker has the terminal: for a debugger",
			Once: true},
	}
}

// checkpointFlags are about saves and checkpoints.
func checkpointFlags() []command.Flag {
	return []command.Flag{
		{Name: "checkpoint-dir", Arg: "DIR", Usage: "where the workers save"},
		{Name: "save-files", Arg: "A,B…",
			Usage: "the files that make one save, in the order in which they are written (none)"},
		{Name: "save-from", Arg: "rank0|all",
			Usage:  "whose workers write a save (all for shards, else rank0)",
			Values: []string{"rank0", "all"}},
		{Name: "load", Arg: "all|own|rank0",
			Usage:  "nodes that get the checkpoint; own: each node the files that its ranks read (all)",
			Values: []string{"all", "own", "rank0"}},
		{Name: "replicas", Arg: "N", Usage: "copies of a checkpoint (2)"},
		{Name: "keep", Arg: "N", Usage: "checkpoints that are kept (3)"},
		{Name: "verify-every", Arg: "TIME",
			Usage: "how often the checkpoints on this disk are read again (24h)"},
	}
}

// failureFlags are about failures of workers.
func failureFlags() []command.Flag {
	return []command.Flag{
		{Name: "max-restarts", Arg: "N", Usage: "restarts after failures of workers (3)",
			Same: []string{"max-restart"},
			Env: []string{"ELASTIC_MAX_RESTARTS", "PADDLE_ELASTIC_MAX_RESTARTS", "PET_MAX_RESTARTS",
				"PADDLE_MAX_RESTART"}},
		{Name: "on-nan", Arg: "RULE",
			Usage: "a loss that is not a number: ignore, fail or rollback[:K] (ignore)"},
		{Name: "hang-look", Arg: "TIME",
			Usage: "name the rank that hangs after this long and ten usual steps without one (30s)"},
		{Name: "hang-timeout", Arg: "TIME", Usage: "the job hangs after this long without a sign of life (none)"},
	}
}

// logFlags are about the output of workers.
func logFlags() []command.Flag {
	return []command.Flag{
		{Name: "log-dir", Arg: "DIR", Usage: "output of the workers (log)",
			Env: []string{"ELASTIC_LOG_DIR", "PADDLE_ELASTIC_LOG_DIR", "PET_LOG_DIR", "PADDLE_LOG_DIR"}},
		{Name: "log-keep", Arg: "N", Usage: "rotated log files that are kept of each worker (8)"},
		{Name: "split-logs", Kind: command.Boolean, Usage: "stderr in a file of its own, workerlog.N.err"},
		{Name: "console", Arg: "0|all|none|RANKS", Usage: "whose output is shown here, by local rank (0)",
			Same: []string{"local-ranks-filter"}, Env: []string{"PET_LOCAL_RANKS_FILTER"}},
		{Name: "progress-regex", Arg: "REGEX",
			Usage: "finds step, loss and samples in rank 0's output, by named groups"},
	}
}

// serverFlags are about the server, beside those of every command.
func serverFlags() []command.Flag {
	return []command.Flag{
		{Name: "rdzv-endpoint", Arg: "HOST:PORT",
			Usage: "--server; run starts one there if HOST is this machine and nothing listens",
			Same:  []string{"master"}, Env: []string{"PET_RDZV_ENDPOINT", "PADDLE_MASTER"}},
		{Name: "lease-ttl", Arg: "TIME", Usage: "lease of this node's registration (3s)"},
		{Name: "connect-timeout", Arg: "TIME", Usage: "how long to wait for the server's first answer (60s)"},
	}
}
