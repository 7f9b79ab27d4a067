// Package launch prepares the start of workers: their environment, their program, and the ports of
// their generation.
package launch

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/elasticd/elastic/pkg/roles"
	"github.com/elasticd/elastic/pkg/scaling"
)

// maxList is the longest list of endpoints in a variable. The kernel limits a variable to 128 KiB,
// and frameworks that read the list cannot use a longer one.
const maxList = 48_000

// Inputs has all values that the environments of one node's workers depend on.
type Inputs struct {
	Job         string
	Generation  uint64
	Began       uint64 // the generation in which the processes started, if another one
	MaxRestarts int

	Node     string
	NodeRank int
	Nodes    int // in the world

	FirstRank         int // rank of this node's first worker
	Workers           int // of this node
	WorldSize         int // workers of all nodes
	PreviousWorldSize int // 0 in the first generation
	Others            Others

	CheckpointDir string
	Resume        *Resume // nil: there is no checkpoint yet
	RunDir        string  // <state>/<host>/nodes/<node>/jobs/<job>/run

	Plan    *scaling.Plan // nil: the job has no batch size or no learning rate
	LRScale float64       // set even if Plan is nil

	MasterHost string
	MasterPort int
	PaddlePort int // for Paddle's store on the master; 0: none

	// Endpoints are host:port of every worker by rank; nil: too many for a variable. Own are those
	// of this node's workers; nil: they are taken from Endpoints.
	Endpoints, Own []string

	HelperDir string // has the Python helper; "": none
	// AgentSocket is the socket for workers that can stay for another generation; "": none.
	AgentSocket string

	Waits bool // the workers start in no generation, and wait for their first world

	// Hosts are the addresses of the nodes, by node rank.
	Hosts []string

	Role             Role
	Team             *roles.Team  // the processes of all nodes and their endpoints; nil: all are trainers
	Tasks            []roles.Task // of this node, by local rank, with Team
	ServersStay      bool         // the servers of Team stayed and kept their tables
	DeviceIDs        []string     // the trainers of Team use them in turn
	Devices          [][]string   // NAME=VALUE for the devices of each worker, by local rank; nil: none
	VirtualLocalRank bool         // LOCAL_RANK is 0 for all workers; each sees one device
	LogDir           string       // absolute; "": not given

	Inherited []string // the environment that the workers' environment extends
}

// Others counts the workers of nodes with another --role than this node.
type Others struct {
	Before, All int // Before: of lower rank
}

// Resume is the checkpoint that a generation starts from.
type Resume struct {
	From          string
	Step, Samples *int64 // nil: the save has none
}

// DrainFile returns the file that asks the workers of a generation to save and end.
func DrainFile(runDir string, generation uint64) string {
	return filepath.Join(runDir, strconv.FormatUint(generation, 10), "drain")
}

// WorkerDir returns the directory of one worker's progress and error files.
func WorkerDir(runDir string, generation uint64, localRank int) string {
	return filepath.Join(runDir, strconv.FormatUint(generation, 10), strconv.Itoa(localRank))
}

// Environ returns the whole environment of each worker of this node, by local rank. Inherited
// variables come first. No name appears twice.
func Environ(in Inputs) [][]string {
	envs := make([][]string, in.Workers)
	for local, given := range Given(in) {
		e := make([]string, 0, len(in.Inherited)+len(given))
		names := map[string]bool{}
		for _, kv := range given {
			names[nameOf(kv)] = true
		}
		for _, kv := range in.Inherited {
			if name := nameOf(kv); !names[name] && !onlyForWorkers(name) && !isSecret(name) {
				e = append(e, kv)
			}
		}
		envs[local] = append(e, given...)
	}
	return envs
}

// Given returns the variables of each worker without the inherited ones, by local rank.
func Given(in Inputs) [][]string {
	set := map[string]bool{}
	for _, kv := range in.Inherited {
		set[nameOf(kv)] = true
	}
	if in.Role.vars == nil {
		in.Role = Trainer("default")
	}
	envs := make([][]string, in.Workers)
	for local := range envs {
		e := env{inherited: set}
		in.elastic(&e, local)
		if in.trains(local) {
			in.batch(&e, in.rank(local))
		}
		in.Role.vars(&in, &e, local)
		if in.Workers > 1 {
			e.unlessSet("OMP_NUM_THREADS", "1")
		}
		e.set("PYTHONUNBUFFERED", "1")
		if in.HelperDir != "" {
			e.set("PYTHONPATH", in.pythonPath())
		}
		envs[local] = e.list
	}
	return envs
}

// Overlay returns base with given added. A variable in given replaces one of the same name.
func Overlay(base, given []string) []string {
	names := map[string]bool{}
	for _, kv := range given {
		names[nameOf(kv)] = true
	}
	kept := slices.DeleteFunc(slices.Clone(base), func(kv string) bool { return names[nameOf(kv)] })
	return append(kept, given...)
}

// rank returns the rank of a worker, or the index of another process in its role.
func (in *Inputs) rank(local int) int {
	if in.Team != nil {
		return in.Tasks[local].Index
	}
	return in.FirstRank + local
}

// trains reports whether the process is a trainer.
func (in *Inputs) trains(local int) bool {
	return in.Team == nil || in.Tasks[local].Role == roles.Trainer
}

// began returns the generation whose run directory the processes use.
func (in *Inputs) began() uint64 {
	if in.Began > 0 {
		return in.Began
	}
	return in.Generation
}

func nameOf(kv string) string {
	name, _, _ := strings.Cut(kv, "=")
	return name
}

// isSecret reports whether a variable opens the server. Workers do not need it, so it is removed from
// their environment and cannot get into their logs.
func isSecret(name string) bool { return name == "ELASTIC_PASSWORD" || name == "ELASTIC_TOKEN" }

// pythonPath returns the inherited PYTHONPATH with the helper at its end, so the user's modules
// come first.
func (in *Inputs) pythonPath() string {
	path := in.HelperDir
	for _, kv := range in.Inherited {
		if given, ok := strings.CutPrefix(kv, "PYTHONPATH="); ok && given != "" {
			path = given + string(filepath.ListSeparator) + in.HelperDir
		}
	}
	return path
}

// onlyForWorkers reports whether an inherited variable is one that only launchers set for workers. A stale
// value would send a worker into another world.
func onlyForWorkers(name string) bool {
	if slices.Contains(forTorch, name) {
		return false
	}
	for _, prefix := range []string{"MASTER_", "TORCHELASTIC_", "PADDLE_TRAINER"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains(workerNames, name)
}

// forTorch are variables that users set for torchrun, which passes them on.
var forTorch = []string{"TORCHELASTIC_ENABLE_FILE_TIMER", "TORCHELASTIC_HEALTH_CHECK_PORT",
	"TORCHELASTIC_SIGNALS_TO_HANDLE", "TORCHELASTIC_TIMER_FILE"}

// workerNames are further variables that only launchers set for workers.
var workerNames = []string{
	"ELASTIC_AGENT_SOCKET", "ELASTIC_BATCH_SIZE", "ELASTIC_CHECKPOINT_DIR", "ELASTIC_DRAIN_FILE",
	"ELASTIC_EVIDENCE", "ELASTIC_GENERATION", "ELASTIC_GLOBAL_BATCH_SIZE", "ELASTIC_GRAD_ACCUM_STEPS",
	"ELASTIC_JOB_ID", "ELASTIC_LOCAL_RANK", "ELASTIC_LOSS_WEIGHT", "ELASTIC_LR", "ELASTIC_LR_SCALE",
	"ELASTIC_NODE", "ELASTIC_PREVIOUS_WORLD_SIZE", "ELASTIC_PROGRESS_FILE", "ELASTIC_RANK",
	"ELASTIC_RESUME_FROM", "ELASTIC_RESUME_SAMPLES", "ELASTIC_RESUME_STEP", "ELASTIC_ROLE", "ELASTIC_SCALING",
	"ELASTIC_WARMUP_BEGIN", "ELASTIC_WARMUP_LR_SCALE", "ELASTIC_WAITS", "ELASTIC_WARMUP_SAMPLES",
	"ELASTIC_WORLD_SIZE",
	"PADDLE_AUTO_CLUSTER", "PADDLE_BACKUP_ENV_PATH", "PADDLE_CURRENT_ENDPOINT", "PADDLE_GLOBAL_RANK",
	"PADDLE_GLOBAL_SIZE", "PADDLE_LOCAL_DEVICE_IDS", "PADDLE_LOCAL_RANK", "PADDLE_LOCAL_SIZE",
	"PADDLE_LOG_DIR", "PADDLE_MASTER", "PADDLE_NNODES", "PADDLE_RANK_IN_NODE",
	"DISTRIBUTED_TRAINER_ENDPOINTS", "GROUP_RANK", "GROUP_WORLD_SIZE", "LOCAL_RANK",
	"LOCAL_WORLD_SIZE", "NNODES", "NODE_RANK", "PYTHONUNBUFFERED", "RANK", "ROLE_NAME", "ROLE_RANK",
	"ROLE_WORLD_SIZE", "TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RESTART_COUNT",
	"TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE", "WORLD_SIZE",
}

// elastic sets the variables of this project, for plain programs and the Python helper.
func (in *Inputs) elastic(e *env, local int) {
	e.set("ELASTIC_JOB_ID", in.Job)
	e.set("ELASTIC_GENERATION", strconv.FormatUint(in.Generation, 10))
	e.set("ELASTIC_NODE", in.Node)
	e.int("ELASTIC_RANK", in.rank(local))
	e.int("ELASTIC_LOCAL_RANK", local)
	e.int("ELASTIC_WORLD_SIZE", in.WorldSize)
	e.int("ELASTIC_PREVIOUS_WORLD_SIZE", in.PreviousWorldSize)
	e.set("ELASTIC_CHECKPOINT_DIR", in.CheckpointDir)
	from, step, samples := "", "0", "0"
	if r := in.Resume; r != nil {
		from, step, samples = r.From, optional(r.Step), optional(r.Samples)
	}
	e.set("ELASTIC_RESUME_FROM", from)
	e.set("ELASTIC_RESUME_STEP", step)
	e.set("ELASTIC_RESUME_SAMPLES", samples)
	e.set("ELASTIC_PROGRESS_FILE", filepath.Join(WorkerDir(in.RunDir, in.began(), local), "progress.jsonl"))
	e.set("ELASTIC_DRAIN_FILE", DrainFile(in.RunDir, in.began()))
	if in.AgentSocket != "" {
		e.set("ELASTIC_AGENT_SOCKET", in.AgentSocket)
	}
	if in.Waits {
		e.set("ELASTIC_WAITS", "1")
	}
}

func (in *Inputs) batch(e *env, rank int) {
	e.float("ELASTIC_LR_SCALE", in.LRScale)
	p := in.Plan
	if p == nil {
		return
	}
	e.set("ELASTIC_SCALING", string(p.Policy))
	if p.GlobalBatch > 0 {
		e.int("ELASTIC_GLOBAL_BATCH_SIZE", p.GlobalBatch)
		e.int("ELASTIC_BATCH_SIZE", p.BatchSizes[rank])
		e.int("ELASTIC_GRAD_ACCUM_STEPS", p.GradAccum)
		e.float("ELASTIC_LOSS_WEIGHT", p.LossWeight(rank))
	}
	if p.LR > 0 {
		e.float("ELASTIC_LR", p.LR)
	}
	w := p.Warmup
	if w == nil {
		e.int("ELASTIC_WARMUP_SAMPLES", 0)
		return
	}
	e.set("ELASTIC_WARMUP_SAMPLES", strconv.FormatInt(w.Samples, 10))
	e.set("ELASTIC_WARMUP_BEGIN", strconv.FormatInt(w.Begin, 10))
	e.float("ELASTIC_WARMUP_LR_SCALE", w.FromScale)
}

// torch sets the variables of torchrun. Libraries detect an elastic launcher by
// TORCHELASTIC_RUN_ID. Without USE_AGENT_STORE=False every rank would wait for a store of the
// agent, which does not exist.
func (in *Inputs) torch(e *env, local int) {
	e.int("RANK", in.FirstRank+local)
	if in.VirtualLocalRank {
		e.int("LOCAL_RANK", 0)
	} else {
		e.int("LOCAL_RANK", local)
	}
	e.int("WORLD_SIZE", in.WorldSize)
	e.int("LOCAL_WORLD_SIZE", in.Workers)
	e.int("GROUP_RANK", in.NodeRank)
	e.int("GROUP_WORLD_SIZE", in.Nodes)
	e.int("NODE_RANK", in.NodeRank)
	e.int("NNODES", in.Nodes)
	e.int("ROLE_RANK", in.FirstRank-in.Others.Before+local)
	e.int("ROLE_WORLD_SIZE", in.WorldSize-in.Others.All)
	e.set("ROLE_NAME", in.Role.String())
	e.set("MASTER_ADDR", in.MasterHost)
	e.int("MASTER_PORT", in.MasterPort)
	e.set("TORCHELASTIC_RUN_ID", in.Job)
	e.set("TORCHELASTIC_RESTART_COUNT", strconv.FormatUint(max(in.Generation, 1)-1, 10))
	e.int("TORCHELASTIC_MAX_RESTARTS", in.MaxRestarts)
	e.set("TORCHELASTIC_USE_AGENT_STORE", "False")
	e.set("TORCHELASTIC_ERROR_FILE", filepath.Join(WorkerDir(in.RunDir, in.began(), local), "error.json"))
}

func (in *Inputs) endpoint(local int) string {
	if local < len(in.Own) {
		return in.Own[local]
	}
	if rank := in.FirstRank + local; rank < len(in.Endpoints) {
		return in.Endpoints[rank]
	}
	return ""
}

type env struct {
	list      []string
	inherited map[string]bool // names of variables that the user or an outer launcher set
}

// unlessSet sets a variable unless the user has set it.
func (e *env) unlessSet(name, value string) {
	if !e.inherited[name] {
		e.set(name, value)
	}
}

func (e *env) set(name, value string)    { e.list = append(e.list, name+"="+value) }
func (e *env) int(name string, v int)    { e.set(name, strconv.Itoa(v)) }
func (e *env) float(n string, v float64) { e.set(n, strconv.FormatFloat(v, 'g', -1, 64)) }

func optional(v *int64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatInt(*v, 10)
}
