package command

// Unused returns flags of other launchers that elastic does not need. run accepts and ignores them.
func Unused() []Flag {
	return []Flag{
		{Name: "rdzv-backend"}, {Name: "rdzv-conf"},
		{Name: "monitor-interval"}, {Name: "start-method"}, {Name: "event-log-handler"}, {Name: "logs-specs"},
		{Name: "elastic-level"}, {Name: "elastic-timeout"}, {Name: "legacy"}, {Name: "log-level"},
		{Name: "log-overwrite"},
		{Name: "sort-ip"}, {Name: "enable-gpu-log"}, {Name: "start-port"}, {Name: "backend"}, {Name: "force"},
		{Name: "scale"},
		{Name: "auto-cluster-config"},
		{Name: "cluster-topo-path"}, {Name: "rank-mapping-path"}, {Name: "enable-auto-mapping"},
		{Name: "gloo-port"},
		{Name: "use-env", Kind: Boolean}, {Name: "multi-gpu", Kind: Boolean}, {Name: "launcher"},
		{Name: "no-local-rank", Kind: Boolean}, {Name: "no-ssh", Kind: Boolean},
		{Name: "force-multi", Kind: Boolean},
	}
}

// gone explains a flag of another launcher that elastic does not have.
type gone struct{ why, fix string }

// removed returns flags of other launchers that have no meaning here, or another one.
func removed() map[string]gone {
	renamed := "Paddle 2.0 renamed it"
	dropped := "Paddle 2.0 dropped it"
	accelerate := "it is a flag of accelerate launch"
	tuner := gone{"it has Paddle's launcher search for a configuration",
		"search with that launcher, then run the line without the flag"}
	deepspeed := "it is a flag of deepspeed, which starts all nodes from one"
	counts := gone{"it counts all processes", "--np=NODES --nproc-per-node=WORKERS"}
	return map[string]gone{
		"num-processes": counts,
		"num-proc":      counts,
		"password": {"a password is no flag: it would stand in the list of processes",
			"set ELASTIC_PASSWORD"},
		"cluster-node-ips": {renamed, "--ips=ADDRESS,ADDRESS"},
		"selected-gpus":    {renamed, "--gpus=0,1"},
		"node-ip":          {dropped, "--host=ADDRESS, where the address is not found by itself"},
		"use-paddlecloud":  {dropped + ": the platform's variables are read without a flag", "leave it out"},
		"started-port":     {dropped, "--worker-ports=LO-HI, where the ports matter"},
		"print-config":     {dropped, "--verbose, and envlog.N in the log directory"},
		"with-gloo":        {"the script reads the variable", "export PADDLE_WITH_GLOO=1"},
		"auto-tuner-json":  tuner, "auto-parallel-config": tuner,
		"print-completion": {"completion is a command here", "elastic completion bash, zsh or fish"},
		"config-file":      {accelerate, "flags, or elastic.yaml; --help names them"},
		"mixed-precision":  {accelerate, "export ACCELERATE_MIXED_PRECISION=bf16, which the script reads"},
		"dynamo-backend": {accelerate,
			"export ACCELERATE_DYNAMO_BACKEND=INDUCTOR, which the script reads"},
		"num-cpu-threads-per-process": {accelerate, "export OMP_NUM_THREADS=N"},
		"use-deepspeed": {accelerate,
			"export ACCELERATE_USE_DEEPSPEED=true, which the script reads"},
		"use-fsdp": {accelerate, "export ACCELERATE_USE_FSDP=true, which the script reads"},
		"hostfile": {deepspeed, "the same line on every node, with --np and --master-addr"},
		"include":  {deepspeed, "--gpus=0,1 on each node"},
		"exclude":  {deepspeed, "--gpus=0,1 on each node"},
	}
}
