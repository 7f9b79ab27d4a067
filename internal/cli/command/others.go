package command

// Unused are flags of other launchers whose work is done here without being told.
func Unused() []Flag {
	return []Flag{
		{Name: "rdzv-backend"}, {Name: "rdzv-conf"},
		{Name: "monitor-interval"}, {Name: "start-method"}, {Name: "event-log-handler"}, {Name: "logs-specs"},
		{Name: "elastic-level"}, {Name: "elastic-timeout"}, {Name: "legacy"}, {Name: "log-level"}, {Name: "log-overwrite"},
		{Name: "sort-ip"}, {Name: "enable-gpu-log"}, {Name: "start-port"}, {Name: "backend"}, {Name: "force"}, {Name: "scale"},
		{Name: "auto-parallel-config"}, {Name: "auto-tuner-json"}, {Name: "auto-cluster-config"},
		{Name: "cluster-topo-path"}, {Name: "rank-mapping-path"}, {Name: "enable-auto-mapping"},
		{Name: "with-gloo"}, {Name: "gloo-port"}, {Name: "http-port"},
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
