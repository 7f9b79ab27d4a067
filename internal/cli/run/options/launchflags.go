package options

import (
	"github.com/elasticd/elastic/internal/cli/command"
)

// torchrunFlags are those that exist for users of torchrun.
func torchrunFlags() []command.Flag {
	return []command.Flag{
		{Name: "standalone", Kind: command.Boolean, Usage: "use the local server, whatever else is given",
			Env: []string{"PET_STANDALONE"}},
		{Name: "node-rank", Arg: "N", Usage: "rank of this node, with --master-addr",
			Same: []string{"machine-rank"}, Env: []string{"PET_NODE_RANK"}},
		{Name: "master-addr", Arg: "HOST", Usage: "the first of several nodes, which has the server",
			Same: []string{"main-process-ip"}, Env: []string{"PET_MASTER_ADDR"}},
		{Name: "master-port", Arg: "PORT", Usage: "port of that server (29500)",
			Same: []string{"main-process-port"}, Env: []string{"PET_MASTER_PORT"}},
		{Name: "role", Arg: "NAME", Usage: "ROLE_NAME of the workers (default)", Env: []string{"PET_ROLE"}},
		{Name: "tee", Short: "t", Arg: "STD", Usage: "as torchrun's: 0, 1, 2, 3 or RANK:STD,…",
			Env: []string{"PET_TEE"}},
		{Name: "redirects", Short: "r", Arg: "STD", Usage: "as torchrun's", Env: []string{"PET_REDIRECTS"}},
		{Name: "no-python", Kind: command.Boolean, Usage: "run a .py file itself, not python3 -u",
			Env: []string{"PET_NO_PYTHON"}},
		{Name: "run-path", Kind: command.Boolean, Usage: "run PROGRAM by runpy",
			Env: []string{"PET_RUN_PATH"}},
		{Name: "device-binding", Arg: "HOW",
			Usage:  "auto: a worker sees all devices; env: its own; none: unchanged (auto)",
			Values: []string{"auto", "env", "none"}},
		{Name: "numa-binding", Arg: "HOW",
			Usage:  "node: a worker runs on the processors of its device's NUMA node",
			Env:    []string{"PET_NUMA_BINDING"},
			Values: []string{"node", "socket", "exclusive", "core-complex"}},
		{Name: "virtual-local-rank", Kind: command.Boolean,
			Usage: "a worker sees its device only, as LOCAL_RANK 0", Env: []string{"PET_VIRTUAL_LOCAL_RANK"}},
		{Name: "log-line-prefix-template", Arg: "TEXT",
			Usage: "text before the lines that --tee shows ([${role_name}${local_rank}]:)",
			Env:   []string{"PET_LOG_LINE_PREFIX_TEMPLATE", "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"}},
		{Name: "duplicate-stdout-filters", Arg: "WORDS",
			Usage: "lines with one of them go to filtered_stdout.log, too",
			Env:   []string{"PET_DUPLICATE_STDOUT_FILTERS"}},
		{Name: "duplicate-stderr-filters", Arg: "WORDS", Usage: "the same for stderr",
			Env: []string{"PET_DUPLICATE_STDERR_FILTERS"}},
		{Name: "signals-to-handle", Arg: "NAMES", Usage: "more signals on which this node saves and leaves",
			Env: []string{"PET_SIGNALS_TO_HANDLE"}},
		{Name: "shutdown-timeout", Arg: "SECONDS", Usage: "--grace in seconds",
			Env: []string{"PET_SHUTDOWN_TIMEOUT", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"}},
	}
}

// paddleFlags are those that exist for users of Paddle's launcher: most are for jobs with parameter servers.
func paddleFlags() []command.Flag {
	return []command.Flag{
		{Name: "ips", Arg: "ADDRESSES", Usage: "addresses of all nodes, in the order of their ranks; the first " +
			"one has the server", Env: []string{"PADDLE_IPS"}},
		{Name: "rank", Arg: "N", Usage: "rank of this node, with --master: Paddle's --node-rank",
			Env: []string{"PADDLE_RANK"}},
		{Name: "run-mode", Arg: "MODE",
			Usage: "collective, ps, ps-heter or rpc (by the flags below, else collective)",
			Env:   []string{"PADDLE_RUN_MODE"}, Values: []string{"collective", "ps", "ps-heter", "rpc"}},
		{Name: "server-num", Arg: "N", Usage: "parameter servers of the job, in place of --servers",
			Env: []string{"PADDLE_SERVER_NUM"}},
		{Name: "worker-num", Arg: "N", Usage: "trainers of the job (--nproc-per-node on each node)",
			Same: []string{"trainer-num"}, Env: []string{"PADDLE_TRAINER_NUM"}},
		{Name: "servers", Arg: "ADDRESSES",
			Usage: "HOST:PORT of each parameter server, the same list on every node",
			Env:   []string{"PADDLE_SERVERS_ENDPOINTS"}},
		{Name: "workers", Arg: "ADDRESSES", Usage: "HOST or HOST:PORT of each trainer",
			Same: []string{"trainers"}, Env: []string{"PADDLE_TRAINERS_ENDPOINTS"}},
		{Name: "heter-worker-num", Arg: "N", Usage: "heter workers, N;N for stages"},
		{Name: "heter-workers", Arg: "ADDRESSES",
			Usage: "HOST:PORT of each heter worker; stages are separated by ;"},
		{Name: "heter-devices", Arg: "KINDS", Usage: "cpu, gpu or xpu of each stage, separated by ;"},
		{Name: "http-port", Arg: "P", Usage: "port of gloo's rendezvous, on the first server's node (any)"},
		{Name: "verbose", Short: "v", Kind: command.Boolean,
			Usage: "print the start lines of Paddle's launcher"},
	}
}
