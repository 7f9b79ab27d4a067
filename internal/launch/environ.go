// Package launch is what a worker is given: its environment, the file of its
// program, and the ports that its generation uses.
package launch

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/elasticd/elastic/pkg/roles"
	"github.com/elasticd/elastic/pkg/scaling"
)

// maxList is the length of the longest list of endpoints that is given. The
// kernel refuses a variable of more than 128 KiB, and frameworks that read the
// list cannot use one that long anyway.
const maxList = 48_000

// Inputs is all that the environments of one node's workers are made of.
type Inputs struct {
	Job         string
	Generation  uint64
	Began       uint64 // the generation that the processes were started for, where it is another one
	MaxRestarts int

	Node     string
	NodeRank int
	Nodes    int // in the world

	FirstRank         int // rank of this node's first worker
	Workers           int // of this node
	WorldSize         int // workers of all nodes
	PreviousWorldSize int // 0 in the first generation

	CheckpointDir string
	Resume        *Resume // nil: there is no checkpoint yet
	RunDir        string  // <state>/<host>/nodes/<node>/jobs/<job>/run

	Plan    *scaling.Plan // nil: neither batch nor rate was given
	LRScale float64       // given with or without Plan

	MasterHost string
	MasterPort int
	PaddlePort int // second port of the master; 0: none

	// Endpoints are host:port of every worker by rank; nil: too many to be given.
	// Own are those of this node's workers; nil: taken from Endpoints.
	Endpoints, Own []string

	HelperDir string // holds the Python helper; "": none
	// AgentSocket is where workers that can stay for another generation say so; "": nowhere.
	AgentSocket string

	Waits bool // the workers begin in no generation, and wait for the World that they are handed

	// Hosts are the addresses of the nodes, by node rank.
	Hosts []string

	Role             Role
	Team             *roles.Team  // the processes of all nodes and their endpoints; nil: all are trainers
	Tasks            []roles.Task // of this node, by local rank, with Team
	ServersStay      bool         // the servers of Team kept their tables: these trainers are new to them
	DeviceIDs        []string     // that the trainers of Team take in turn
	Devices          [][]string   // NAME=VALUE of each worker's devices, by local rank; nil: none has one
	VirtualLocalRank bool         // LOCAL_RANK is 0 for all workers, which see one device each
	LogDir           string       // absolute; "": not given

	Inherited []string // what the workers' environment is built upon
	// Mark is put into the environment of every worker, so that leftovers of a
	// killed agent can be distinguished from other processes.
	MarkName, MarkValue string
}

// Resume is the checkpoint that a generation starts from.
type Resume struct {
	From          string
	Step, Samples *int64 // nil: not in the save
}

// DrainFile is the file that asks the workers of a generation to save and stop.
func DrainFile(runDir string, generation uint64) string {
	return filepath.Join(runDir, strconv.FormatUint(generation, 10), "drain")
}

// WorkerDir holds the progress and error files of one worker of a generation.
func WorkerDir(runDir string, generation uint64, localRank int) string {
	return filepath.Join(runDir, strconv.FormatUint(generation, 10), strconv.Itoa(localRank))
}

// Environ is the whole environment of each worker of this node, by local rank. Inherited variables
// come first; no name appears twice.
func Environ(in Inputs) [][]string {
	envs := make([][]string, in.Workers)
	for local, given := range Given(in) {
		e := make([]string, 0, len(in.Inherited)+len(given))
		names := map[string]bool{}
		for _, kv := range given {
			names[nameOf(kv)] = true
		}
		for _, kv := range in.Inherited {
			if name := nameOf(kv); !names[name] && !ours(name) && name != in.MarkName && name != secret {
				e = append(e, kv)
			}
		}
		envs[local] = append(e, given...)
	}
	return envs
}

// Given is what each worker is given beyond what it inherits, by local rank.
func Given(in Inputs) [][]string {
	set := map[string]bool{}
	for _, kv := range in.Inherited {
		set[nameOf(kv)] = true
	}
	envs := make([][]string, in.Workers)
	for local := range envs {
		e := env{inherited: set}
		in.elastic(&e, local)
		if in.trains(local) {
			in.batch(&e, in.rank(local))
		}
		in.Role.environ(&in, &e, local)
		if in.Workers > 1 {
			e.unlessSet("OMP_NUM_THREADS", "1")
		}
		e.set("PYTHONUNBUFFERED", "1")
		if in.HelperDir != "" {
			e.set("PYTHONPATH", in.pythonPath())
		}
		if in.MarkName != "" {
			e.set(in.MarkName, in.MarkValue)
		}
		envs[local] = e.list
	}
	return envs
}

// Overlay is base with given in place of the variables of the same names.
func Overlay(base, given []string) []string {
	names := map[string]bool{}
	for _, kv := range given {
		names[nameOf(kv)] = true
	}
	kept := slices.DeleteFunc(slices.Clone(base), func(kv string) bool { return names[nameOf(kv)] })
	return append(kept, given...)
}

// rank is that of a worker, or the index of a process of another role among its like.
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

// began is the generation whose run directory the processes use.
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

// secret is the password of this agent's user of etcd. A worker, and all that it starts and logs,
// has no use for it.
const secret = "ELASTIC_PASSWORD"

// pythonPath is the inherited one with the helper at its end: what the user has there comes first.
func (in *Inputs) pythonPath() string {
	path := in.HelperDir
	for _, kv := range in.Inherited {
		if given, ok := strings.CutPrefix(kv, "PYTHONPATH="); ok && given != "" {
			path = given + string(filepath.ListSeparator) + in.HelperDir
		}
	}
	return path
}

// ours says whether an inherited variable is one that only we, or an outer
// launcher, give to workers: a stale one would send a worker into another world.
func ours(name string) bool {
	for _, prefix := range []string{"MASTER_", "TORCHELASTIC_", "PADDLE_TRAINER"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains(workerNames, name)
}

// workerNames are the other names that workers may be given, and that mean nothing to them from elsewhere.
var workerNames = []string{
	"ELASTIC_AGENT_SOCKET", "ELASTIC_BATCH_SIZE", "ELASTIC_CHECKPOINT_DIR", "ELASTIC_DRAIN_FILE",
	"ELASTIC_EVIDENCE", "ELASTIC_GENERATION", "ELASTIC_GLOBAL_BATCH_SIZE", "ELASTIC_GRAD_ACCUM_STEPS",
	"ELASTIC_JOB_ID", "ELASTIC_LOCAL_RANK", "ELASTIC_LOSS_WEIGHT", "ELASTIC_LR", "ELASTIC_LR_SCALE",
	"ELASTIC_NODE", "ELASTIC_PREVIOUS_WORLD_SIZE", "ELASTIC_PROGRESS_FILE", "ELASTIC_RANK",
	"ELASTIC_RESUME_FROM", "ELASTIC_RESUME_SAMPLES", "ELASTIC_RESUME_STEP", "ELASTIC_ROLE",
	"ELASTIC_WARMUP_BEGIN", "ELASTIC_WARMUP_LR_SCALE", "ELASTIC_WAITS", "ELASTIC_WARMUP_SAMPLES",
	"ELASTIC_WORLD_SIZE",
	"PADDLE_AUTO_CLUSTER", "PADDLE_BACKUP_ENV_PATH", "PADDLE_CURRENT_ENDPOINT", "PADDLE_GLOBAL_RANK",
	"PADDLE_GLOBAL_SIZE", "PADDLE_LOCAL_DEVICE_IDS", "PADDLE_LOCAL_RANK", "PADDLE_LOCAL_SIZE",
	"PADDLE_LOG_DIR", "PADDLE_MASTER", "PADDLE_NNODES", "PADDLE_RANK_IN_NODE",
	"DISTRIBUTED_TRAINER_ENDPOINTS", "GROUP_RANK", "GROUP_WORLD_SIZE", "LOCAL_RANK",
	"LOCAL_WORLD_SIZE", "NNODES", "NODE_RANK", "PYTHONUNBUFFERED", "RANK", "ROLE_NAME", "ROLE_RANK",
	"ROLE_WORLD_SIZE", "WORLD_SIZE",
}

// elastic is the vocabulary of this project, for plain programs and our helpers.
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

// torch is what torchrun sets. Libraries take TORCHELASTIC_RUN_ID as the sign of
// an elastic launcher; without USE_AGENT_STORE=False every rank would wait for a store that no
// process opens.
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
	e.int("ROLE_RANK", in.FirstRank+local)
	e.int("ROLE_WORLD_SIZE", in.WorldSize)
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
	inherited map[string]bool // names that the user or an outer launcher set
}

// unlessSet sets a variable that the user may have chosen.
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
