package options

import (
	"github.com/elasticd/elastic/internal/cli/command"
)

// launchFlags are flags for the worker processes that torchrun and Paddle's launcher have too.
func launchFlags() []command.Flag {
	return []command.Flag{
		{Name: "gpus", Arg: "IDS",
			Usage: "devices of this node, one worker for each; as nvidia-smi numbers them",
			Same:  []string{"devices", "xpus", "npus", "gpu-ids"},
			Env:   []string{"ELASTIC_GPUS", "PADDLE_DEVICES"}},
		{Name: "ips", Arg: "ADDRESSES", Usage: "addresses of all nodes, in the order of their ranks; the first " +
			"one has the server", Env: []string{"PADDLE_IPS"}},
		{Name: "node-rank", Arg: "N", Usage: "rank of this node, with --master-addr",
			Same: []string{"machine-rank"}, Env: []string{"PET_NODE_RANK"}},
		{Name: "rank", Arg: "N", Usage: "rank of this node, with --master: Paddle's --node-rank"},
		{Name: "master-addr", Arg: "HOST", Usage: "the first of several nodes, which has the server",
			Same: []string{"main-process-ip"}, Env: []string{"PET_MASTER_ADDR"}},
		{Name: "master-port", Arg: "PORT", Usage: "port of that server (29500)",
			Same: []string{"main-process-port"}, Env: []string{"PET_MASTER_PORT"}},
		{Name: "standalone", Kind: command.Boolean, Usage: "use the local server, whatever else is given",
			Env: []string{"PET_STANDALONE"}},
		{Name: "device-binding", Arg: "HOW",
			Usage:  "auto: a worker sees all devices; env: its own; none: unchanged (auto)",
			Values: []string{"auto", "env", "none"}},
		{Name: "numa-binding", Arg: "HOW",
			Usage:  "node, socket, exclusive or core-complex: processors near its device",
			Env:    []string{"PET_NUMA_BINDING"},
			Values: []string{"node", "socket", "exclusive", "core-complex"}},
		{Name: "virtual-local-rank", Kind: command.Boolean,
			Usage: "a worker sees its device only, as LOCAL_RANK 0", Env: []string{"PET_VIRTUAL_LOCAL_RANK"}},
		{Name: "module", Short: "m", Kind: command.Boolean, Usage: "PROGRAM is a Python module",
			Env: []string{"PET_MODULE"}},
		{Name: "no-python", Kind: command.Boolean, Usage: "run a .py file itself, not python3 -u",
			Env: []string{"PET_NO_PYTHON"}},
		{Name: "run-path", Kind: command.Boolean, Usage: "run PROGRAM by runpy",
			Env: []string{"PET_RUN_PATH"}},
		{Name: "warm", Arg: "auto|off",
			Usage:  "start the next workers' Python and imports ahead, while these train (auto)",
			Values: []string{"auto", "off"}},
		{Name: "role", Arg: "NAME", Usage: "ROLE_NAME of the workers (default)", Env: []string{"PET_ROLE"}},
		{Name: "tty", Kind: command.Boolean, Usage: "the only worker has the terminal: for a debugger",
			Once: true},
		{Name: "verbose", Short: "v", Kind: command.Boolean,
			Usage: "print the start lines of Paddle's launcher"},
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
