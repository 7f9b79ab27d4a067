package cli

// launchFlags are the settings of the workers' processes that torchrun and Paddle's launcher have, too.
func launchFlags() []flag {
	return []flag{
		{name: "gpus", arg: "IDS", usage: "devices of this node, one worker for each; as nvidia-smi numbers them",
			same: []string{"devices", "xpus", "npus"}, env: []string{"ELASTIC_GPUS", "PADDLE_DEVICES"}},
		{name: "ips", arg: "ADDRESSES", usage: "of all nodes, in the order of their ranks; the first one has the server", env: []string{"PADDLE_IPS"}},
		{name: "node-rank", arg: "N", usage: "of this node, with --master-addr", same: []string{"machine-rank"}, env: []string{"PET_NODE_RANK"}},
		{name: "master-addr", arg: "HOST", usage: "the first of several nodes, which has the server", env: []string{"PET_MASTER_ADDR"}},
		{name: "master-port", arg: "PORT", usage: "of that server (29500)", env: []string{"PET_MASTER_PORT"}},
		{name: "standalone", kind: boolean, usage: "use the local server, whatever else is given", env: []string{"PET_STANDALONE"}},
		{name: "device-binding", arg: "HOW", usage: "auto: a worker sees all of them; env: its own; none: as it is (auto)"},
		{name: "numa-binding", arg: "HOW", usage: "node, socket, exclusive or core-complex: processors near its device", env: []string{"PET_NUMA_BINDING"}},
		{name: "virtual-local-rank", kind: boolean, usage: "a worker sees its device only, as LOCAL_RANK 0", env: []string{"PET_VIRTUAL_LOCAL_RANK"}},
		{name: "module", short: "m", kind: boolean, usage: "PROGRAM is a Python module", env: []string{"PET_MODULE"}},
		{name: "no-python", kind: boolean, usage: "run a .py file itself, not python3 -u", env: []string{"PET_NO_PYTHON"}},
		{name: "run-path", kind: boolean, usage: "run PROGRAM by runpy", env: []string{"PET_RUN_PATH"}},
		{name: "role", arg: "NAME", usage: "ROLE_NAME of the workers (default)", env: []string{"PET_ROLE"}},
		{name: "tty", kind: boolean, usage: "the only worker has the terminal: for a debugger"},
		{name: "verbose", short: "v", kind: boolean, usage: "say what Paddle's launcher says of a start"},
		{name: "run-mode", arg: "MODE", usage: "collective", env: []string{"PADDLE_RUN_MODE"}},
		{name: "log-line-prefix-template", arg: "TEXT", usage: "before the lines that --tee shows ([${role_name}${local_rank}]:)",
			env: []string{"PET_LOG_LINE_PREFIX_TEMPLATE", "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"}},
		{name: "duplicate-stdout-filters", arg: "WORDS", usage: "lines with one of them go to filtered_stdout.log, too", env: []string{"PET_DUPLICATE_STDOUT_FILTERS"}},
		{name: "duplicate-stderr-filters", arg: "WORDS", usage: "the same for stderr", env: []string{"PET_DUPLICATE_STDERR_FILTERS"}},
		{name: "signals-to-handle", arg: "NAMES", usage: "more signals on which this node saves and leaves", env: []string{"PET_SIGNALS_TO_HANDLE"}},
		{name: "shutdown-timeout", arg: "SECONDS", usage: "--grace in seconds", env: []string{"PET_SHUTDOWN_TIMEOUT", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"}},
	}
}

// unused are flags of other launchers whose work is done here without being told.
func unused() []flag {
	return []flag{
		{name: "rdzv-backend"}, {name: "rdzv-conf"},
		{name: "monitor-interval"}, {name: "start-method"}, {name: "event-log-handler"}, {name: "logs-specs"},
		{name: "elastic-level"}, {name: "elastic-timeout"}, {name: "legacy"}, {name: "log-level"}, {name: "log-overwrite"},
		{name: "sort-ip"}, {name: "enable-gpu-log"}, {name: "start-port"}, {name: "backend"}, {name: "force"}, {name: "scale"},
		{name: "auto-parallel-config"}, {name: "auto-tuner-json"}, {name: "auto-cluster-config"},
		{name: "cluster-topo-path"}, {name: "rank-mapping-path"}, {name: "enable-auto-mapping"},
		{name: "with-gloo"}, {name: "gloo-port"}, {name: "http-port"},
	}
}

// gone is a flag that a launcher once had.
type gone struct{ why, fix string }

// removed are flags that other launchers had or have, and that mean something else here or nothing.
func removed() map[string]gone {
	renamed := "Paddle 2.0 renamed it"
	dropped := "Paddle 2.0 dropped it"
	counts := gone{"it counts all processes", "--np=NODES --nproc-per-node=WORKERS"}
	return map[string]gone{
		"num-processes":    counts,
		"num-proc":         counts,
		"password":         {"a password is no flag: it would stand in the list of processes", "set ELASTIC_PASSWORD"},
		"cluster-node-ips": {renamed, "--ips=ADDRESS,ADDRESS"},
		"selected-gpus":    {renamed, "--gpus=0,1"},
		"node-ip":          {dropped, "--host=ADDRESS, where the address is not found by itself"},
		"use-paddlecloud":  {dropped + ": the platform's variables are read without a flag", "leave it out"},
		"started-port":     {dropped, "--worker-ports=LO-HI, where the ports matter"},
		"print-config":     {dropped, "--verbose, and envlog.N in the log directory"},
		"print-completion": {"there is no completion yet", "leave it out"},
		"use-env":          {"torch.distributed.launch is gone: the environment is always used", "leave it out, and read LOCAL_RANK"},
	}
}
