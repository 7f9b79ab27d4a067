package launch_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/internal/launch"
	"github.com/elasticd/elastic/pkg/scaling"
)

// example is job x of the contract: made with --np=1 --batch-size=256 --lr=0.1,
// scaled to 2, generation 3, as node b with two workers sees it.
func example(t *testing.T) launch.Inputs {
	t.Helper()
	base := scaling.Base{Batch: 256, LR: .1, Nodes: 1, Slots: 2}
	plan, err := scaling.For(base, 4)
	if err != nil {
		t.Fatal(err)
	}
	step, samples := int64(120), int64(30720)
	return launch.Inputs{
		Job: "x", Generation: 3, MaxRestarts: 3,
		Node: "b", NodeRank: 1, Nodes: 2,
		FirstRank: 2, Workers: 2, WorldSize: 4, PreviousWorldSize: 2,
		CheckpointDir: "/ckpt",
		Resume:        &launch.Resume{From: "/ckpt/step-120", Step: &step, Samples: &samples},
		RunDir:        "/run",
		Plan:          plan, LRScale: base.LRScale(4),
		MasterHost: "10.0.0.1", MasterPort: 41873, PaddlePort: 41874,
		Endpoints: []string{"10.0.0.1:41001", "10.0.0.1:41002", "10.0.0.2:42001", "10.0.0.2:42002"},
		Hosts:     []string{"10.0.0.1", "10.0.0.2"}, LogDir: "/log",
	}
}

func TestExampleOfTheContract(t *testing.T) {
	want := strings.Fields(`
		ELASTIC_JOB_ID=x ELASTIC_GENERATION=3 ELASTIC_NODE=b
		ELASTIC_RANK=3 ELASTIC_LOCAL_RANK=1 ELASTIC_WORLD_SIZE=4 ELASTIC_PREVIOUS_WORLD_SIZE=2
		ELASTIC_CHECKPOINT_DIR=/ckpt ELASTIC_RESUME_FROM=/ckpt/step-120
		ELASTIC_RESUME_STEP=120 ELASTIC_RESUME_SAMPLES=30720
		ELASTIC_GLOBAL_BATCH_SIZE=512 ELASTIC_BATCH_SIZE=128 ELASTIC_GRAD_ACCUM_STEPS=1 ELASTIC_LOSS_WEIGHT=1
		ELASTIC_LR=0.2 ELASTIC_LR_SCALE=2 ELASTIC_SCALING=linear ELASTIC_WARMUP_SAMPLES=0
		ELASTIC_PROGRESS_FILE=/run/3/1/progress.jsonl ELASTIC_DRAIN_FILE=/run/3/drain

		RANK=3 LOCAL_RANK=1 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 GROUP_RANK=1 GROUP_WORLD_SIZE=2
		NODE_RANK=1 NNODES=2 ROLE_RANK=3 ROLE_WORLD_SIZE=4 ROLE_NAME=default
		MASTER_ADDR=10.0.0.1 MASTER_PORT=41873
		TORCHELASTIC_RUN_ID=x TORCHELASTIC_RESTART_COUNT=2 TORCHELASTIC_MAX_RESTARTS=3
		TORCHELASTIC_USE_AGENT_STORE=False TORCHELASTIC_ERROR_FILE=/run/3/1/error.json
		OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1

		PADDLE_TRAINER_ID=3 PADDLE_TRAINERS_NUM=4 PADDLE_CURRENT_ENDPOINT=10.0.0.2:42002
		PADDLE_RANK_IN_NODE=1 PADDLE_LOCAL_RANK=1 PADDLE_LOCAL_SIZE=2 PADDLE_NNODES=2
		PADDLE_GLOBAL_RANK=3 PADDLE_GLOBAL_SIZE=4 PADDLE_MASTER=10.0.0.1:41874
		PADDLE_TRAINER_ENDPOINTS=10.0.0.1:41001,10.0.0.1:41002,10.0.0.2:42001,10.0.0.2:42002
		DISTRIBUTED_TRAINER_ENDPOINTS=10.0.0.1:41001,10.0.0.1:41002,10.0.0.2:42001,10.0.0.2:42002
		PADDLE_TRAINERS=10.0.0.1,10.0.0.2 PADDLE_AUTO_CLUSTER=0
		PADDLE_WITH_GLOO=0 PADDLE_GLOO_RENDEZVOUS=3 PADDLE_GLOO_FS_PATH=/run/3/gloo
		PADDLE_DISTRI_BACKEND=gloo PADDLE_LOG_DIR=/log PADDLE_BACKUP_ENV_PATH=/log/backup_env.3.json`)
	envs := launch.Environ(example(t))
	if len(envs) != 2 {
		t.Fatalf("%d environments for 2 workers", len(envs))
	}
	got := envs[1]
	slices.Sort(want)
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestRanksAcrossWorkers(t *testing.T) {
	for local, e := range launch.Environ(example(t)) {
		m := values(t, e)
		for _, name := range []string{"RANK", "ROLE_RANK", "ELASTIC_RANK", "PADDLE_TRAINER_ID",
			"PADDLE_GLOBAL_RANK"} {
			if want := fmt.Sprint(2 + local); m[name] != want {
				t.Errorf("local rank %d: %s=%s, want %s", local, name, m[name], want)
			}
		}
		for _, name := range []string{"LOCAL_RANK", "ELASTIC_LOCAL_RANK", "PADDLE_LOCAL_RANK",
			"PADDLE_RANK_IN_NODE"} {
			if want := fmt.Sprint(local); m[name] != want {
				t.Errorf("local rank %d: %s=%s, want %s", local, name, m[name], want)
			}
		}
	}
}

// A worker launched under torchrun, Paddle's launcher or another job of ours
// must not see what those reported.
func TestInherited(t *testing.T) {
	in := example(t)
	given := launch.Environ(in)[0]
	in.Plan, in.PaddlePort, in.Endpoints = nil, 0, nil
	chosen := []string{"OMP_NUM_THREADS", "PADDLE_DISTRI_BACKEND", "PADDLE_WITH_GLOO",
		"PADDLE_GLOO_RENDEZVOUS", "PADDLE_GLOO_FS_PATH"}
	keep := []string{"PATH=/bin", "CUDA_VISIBLE_DEVICES=3,1", "ELASTIC_SERVER=a:2379",
		"PADDLE_DISTRI_BACKEND=gloo", "X=a=b", "TORCHELASTIC_HEALTH_CHECK_PORT=1", "RANKS=9", "MASTERS=9"}
	in.Inherited = slices.Clone(keep)
	for _, kv := range given {
		name, _, _ := strings.Cut(kv, "=")
		if !slices.Contains(chosen, name) {
			in.Inherited = append(in.Inherited, name+"=stale")
		}
	}
	in.Inherited = append(in.Inherited, "MASTER_FOO=stale", "TORCHELASTIC_RUN_ID=stale", "PADDLE_TRAINERS=stale",
		"ELASTIC_PASSWORD=stale", "ELASTIC_TOKEN=stale")
	for _, e := range launch.Environ(in) {
		if d := cmp.Diff(keep, e[:len(keep)]); d != "" {
			t.Errorf("inherited (-want +got)\n%s", d)
		}
		for name, value := range values(t, e) { // also fails on a name that is there twice
			if value == "stale" {
				t.Errorf("%s is inherited", name)
			}
		}
		m := values(t, e)
		for _, name := range []string{"ELASTIC_BATCH_SIZE", "ELASTIC_LR", "PADDLE_MASTER",
			"PADDLE_TRAINER_ENDPOINTS", "PADDLE_CURRENT_ENDPOINT"} {
			if v, ok := m[name]; ok {
				t.Errorf("%s=%s, want none", name, v)
			}
		}
	}
	if in.Inherited[0] != "PATH=/bin" || len(in.Inherited) < len(keep) {
		t.Error("the inputs were changed")
	}
}

// What the user set is the user's: threads, the backend, and how NCCL handles errors. Nothing is
// said about the last: 1, which torchrun sets, turns off the dumps of the flight recorder.
func TestOnlyIfUnset(t *testing.T) {
	for name, c := range map[string]struct {
		inherited          []string
		workers            int
		devices            [][]string
		omp, nccl, backend string
	}{
		"unset":      {nil, 2, nil, "1", "", "gloo"},
		"one worker": {nil, 1, nil, "", "", "gloo"},
		"devices": {nil, 2, [][]string{{"FLAGS_selected_gpus=0"}, {"FLAGS_selected_gpus=1"}}, "1", "",
			""},
		"set": {[]string{"OMP_NUM_THREADS=4", "TORCH_NCCL_ASYNC_ERROR_HANDLING=3", "PADDLE_DISTRI_BACKEND=x"},
			2, nil, "4", "3", "x"},
		"set to nothing counts":  {[]string{"OMP_NUM_THREADS="}, 2, nil, "", "", "gloo"},
		"another name is no set": {[]string{"OMP_NUM_THREADSX=4"}, 2, nil, "1", "", "gloo"},
	} {
		t.Run(name, func(t *testing.T) {
			in := example(t)
			in.Inherited, in.Workers, in.Devices = c.inherited, c.workers, c.devices
			m := values(t, launch.Environ(in)[0])
			got := []string{m["OMP_NUM_THREADS"], m["TORCH_NCCL_ASYNC_ERROR_HANDLING"],
				m["PADDLE_DISTRI_BACKEND"]}
			if d := cmp.Diff([]string{c.omp, c.nccl, c.backend}, got); d != "" {
				t.Errorf("threads, errors of NCCL, backend (-want +got)\n%s", d)
			}
		})
	}
}

// What a device needs replaces what was inherited: a stale FLAGS_selected_gpus would put two
// workers on one.
func TestDevices(t *testing.T) {
	in := example(t)
	in.Inherited = []string{"CUDA_VISIBLE_DEVICES=0,1,2,3", "FLAGS_selected_gpus=9"}
	in.Devices = [][]string{{"CUDA_VISIBLE_DEVICES=2", "FLAGS_selected_gpus=0"},
		{"CUDA_VISIBLE_DEVICES=3", "FLAGS_selected_gpus=0"}}
	in.VirtualLocalRank, in.Role = true, launch.Trainer("learner")
	for local, e := range launch.Environ(in) {
		m := values(t, e)
		for name, want := range map[string]string{"CUDA_VISIBLE_DEVICES": fmt.Sprint(2 + local),
			"FLAGS_selected_gpus": "0", "LOCAL_RANK": "0",
			"ELASTIC_LOCAL_RANK": fmt.Sprint(local), "PADDLE_LOCAL_RANK": fmt.Sprint(local),
			"ROLE_NAME": "learner"} {
			if m[name] != want {
				t.Errorf("worker %d: %s=%s, want %s", local, name, m[name], want)
			}
		}
	}
}

// The lists that are too long for an environment are in the file that Paddle reads instead.
func TestRecords(t *testing.T) {
	in := example(t)
	in.Inherited = []string{"TOKEN=secret"}
	in.Endpoints = []string{strings.Repeat("h", 50_000), "10.0.0.2:42002"}
	in.Own = []string{"10.0.0.2:42001", "10.0.0.2:42002"}
	files, err := launch.Records(in)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, f := range files {
		found[f.Name] = string(f.Content)
		if strings.Contains(string(f.Content), "secret") {
			t.Errorf("%s has what was inherited", f.Name)
		}
	}
	if !strings.HasPrefix(found["endpoints.log"], "PADDLE_TRAINER_ENDPOINTS: \nhhh") {
		t.Errorf("endpoints.log: %.40q", found["endpoints.log"])
	}
	if !strings.Contains(found["envlog.1"], "\nPADDLE_TRAINER_ID=3\n") {
		t.Errorf("envlog.1:\n%s", found["envlog.1"])
	}
	var backup map[string]string
	if err := json.Unmarshal([]byte(found["backup_env.3.json"]), &backup); err != nil {
		t.Fatal(err)
	}
	if backup["PADDLE_TRAINER_ENDPOINTS"] != strings.Join(in.Endpoints, ",") ||
		backup["PADDLE_TRAINER_ID"] != "3" {
		t.Errorf("backup_env.3.json: %.200v", backup)
	}
}

func TestFirstGenerationWithoutCheckpointBatchOrRate(t *testing.T) {
	in := example(t)
	in.Generation, in.PreviousWorldSize, in.Resume, in.Plan, in.LRScale = 1, 0, nil, nil, 1
	m := values(t, launch.Environ(in)[0])
	for name, want := range map[string]string{
		"ELASTIC_RESUME_FROM": "", "ELASTIC_RESUME_STEP": "0", "ELASTIC_RESUME_SAMPLES": "0",
		"ELASTIC_PREVIOUS_WORLD_SIZE": "0", "TORCHELASTIC_RESTART_COUNT": "0", "ELASTIC_LR_SCALE": "1",
	} {
		if got, ok := m[name]; !ok || got != want {
			t.Errorf("%s=%q (there: %v), want %q", name, got, ok, want)
		}
	}
	for _, name := range []string{"ELASTIC_GLOBAL_BATCH_SIZE", "ELASTIC_BATCH_SIZE",
		"ELASTIC_GRAD_ACCUM_STEPS", "ELASTIC_LOSS_WEIGHT", "ELASTIC_LR"} {
		if v, ok := m[name]; ok {
			t.Errorf("%s=%s, want none", name, v)
		}
	}
}

func TestUnknownStep(t *testing.T) {
	in := example(t)
	in.Resume = &launch.Resume{From: "/ckpt/model.pt"}
	m := values(t, launch.Environ(in)[0])
	if m["ELASTIC_RESUME_FROM"] != "/ckpt/model.pt" || m["ELASTIC_RESUME_STEP"] != "" ||
		m["ELASTIC_RESUME_SAMPLES"] != "" {
		t.Errorf("from %q, step %q, samples %q",
			m["ELASTIC_RESUME_FROM"], m["ELASTIC_RESUME_STEP"], m["ELASTIC_RESUME_SAMPLES"])
	}
}

func TestUnevenWorldIsGivenPerRank(t *testing.T) {
	in := example(t)
	plan, err := scaling.For(scaling.Base{Batch: 10, Nodes: 2, Slots: 2, Policy: scaling.FixedBatch}, 4)
	if err != nil {
		t.Fatal(err)
	}
	in.Plan, in.FirstRank = plan, 1
	for local, want := range []string{"ELASTIC_BATCH_SIZE=3 ELASTIC_LOSS_WEIGHT=1.2",
		"ELASTIC_BATCH_SIZE=2 ELASTIC_LOSS_WEIGHT=0.8"} {
		m := values(t, launch.Environ(in)[local])
		if got := "ELASTIC_BATCH_SIZE=" + m["ELASTIC_BATCH_SIZE"] + " ELASTIC_LOSS_WEIGHT=" +
			m["ELASTIC_LOSS_WEIGHT"]; got != want {
			t.Errorf("rank %d: %s, want %s", 1+local, got, want)
		}
		if lr, ok := m["ELASTIC_LR"]; ok {
			t.Errorf("ELASTIC_LR=%s without a rate", lr)
		}
	}
}

func TestLongListsAreLeftOut(t *testing.T) {
	in := example(t)
	for length, want := range map[int]bool{48_000: true, 48_001: false} {
		in.Endpoints = []string{strings.Repeat("h", length-1), ""}
		in.Own = []string{"10.0.0.2:42001", "10.0.0.2:42002"}
		m := values(t, launch.Environ(in)[1])
		if _, ok := m["PADDLE_TRAINER_ENDPOINTS"]; ok != want {
			t.Errorf("a list of %d characters is given: %v, want %v", length, ok, want)
		}
		if m["PADDLE_CURRENT_ENDPOINT"] != "10.0.0.2:42002" {
			t.Errorf("own endpoint %q", m["PADDLE_CURRENT_ENDPOINT"])
		}
	}
}

func TestIPv6Master(t *testing.T) {
	in := example(t)
	in.MasterHost = "::1"
	m := values(t, launch.Environ(in)[0])
	if m["MASTER_ADDR"] != "::1" || m["PADDLE_MASTER"] != "[::1]:41874" {
		t.Errorf("MASTER_ADDR=%s PADDLE_MASTER=%s", m["MASTER_ADDR"], m["PADDLE_MASTER"])
	}
}

// values reads an environment and fails on a name that appears twice.
func values(t *testing.T, env []string) map[string]string {
	t.Helper()
	m := map[string]string{}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		if _, twice := m[name]; twice {
			t.Errorf("%s appears twice", name)
		}
		m[name] = value
	}
	return m
}

func TestPythonPath(t *testing.T) {
	for inherited, want := range map[string]string{"": "/helper", "PYTHONPATH=": "/helper",
		"PYTHONPATH=/a:/b": "/a:/b:/helper"} {
		in := example(t)
		in.HelperDir = "/helper"
		if inherited != "" {
			in.Inherited = append(in.Inherited, inherited)
		}
		if got := values(t, launch.Environ(in)[0])["PYTHONPATH"]; got != want {
			t.Errorf("%q: PYTHONPATH=%s, want %s", inherited, got, want)
		}
	}
}
