package launch

import (
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// paddle sets the variables of Paddle's launchers, of 2.x and of 3.x. The store of rank 0 has
// another port than torch's, because a script may use both frameworks.
func (in *Inputs) paddle(e *env, local int) {
	rank := in.FirstRank + local
	e.int("PADDLE_TRAINER_ID", rank)
	e.int("PADDLE_TRAINERS_NUM", in.WorldSize)
	if own := in.endpoint(local); own != "" {
		e.set("PADDLE_CURRENT_ENDPOINT", own)
	}
	e.int("PADDLE_RANK_IN_NODE", local)
	e.int("PADDLE_LOCAL_RANK", local)
	e.int("PADDLE_GLOBAL_RANK", rank)
	e.int("PADDLE_GLOBAL_SIZE", in.WorldSize)
	e.int("PADDLE_LOCAL_SIZE", in.Workers)
	e.int("PADDLE_NNODES", in.Nodes)
	e.int("PADDLE_AUTO_CLUSTER", 0)
	if in.PaddlePort > 0 {
		e.set("PADDLE_MASTER", net.JoinHostPort(in.MasterHost, strconv.Itoa(in.PaddlePort)))
	}
	if list := strings.Join(in.Endpoints, ","); list != "" && len(list) <= maxList {
		e.set("PADDLE_TRAINER_ENDPOINTS", list)
		e.set("DISTRIBUTED_TRAINER_ENDPOINTS", list)
	}
	if list := strings.Join(in.Hosts, ","); list != "" && len(list) <= maxList {
		e.set("PADDLE_TRAINERS", list)
	}
	in.gloo(e)
	if in.LogDir != "" {
		e.set("PADDLE_LOG_DIR", in.LogDir)
		e.set("PADDLE_BACKUP_ENV_PATH", filepath.Join(in.LogDir, backupFile(rank)))
	}
	if local < len(in.Devices) {
		for _, kv := range in.Devices[local] {
			name, value, _ := strings.Cut(kv, "=")
			e.set(name, value)
		}
	}
}

// gloo sets the variables of 2.x for its role maker. It also sets the backend of 3.x if a worker
// has no device: otherwise init_parallel_env creates no default group on a CPU.
func (in *Inputs) gloo(e *env) {
	e.unlessSet("PADDLE_WITH_GLOO", "0")
	e.unlessSet("PADDLE_GLOO_RENDEZVOUS", "3")
	e.unlessSet("PADDLE_GLOO_FS_PATH",
		filepath.Join(in.RunDir, strconv.FormatUint(in.Generation, 10), "gloo"))
	if len(in.Devices) == 0 || len(slices.Concat(in.Devices...)) == 0 {
		e.unlessSet("PADDLE_DISTRI_BACKEND", "gloo")
	}
}
