package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// dump is a worker that writes its environment to a file, and waits.
const dump = `f=env.$ELASTIC_GENERATION.$ELASTIC_NODE.$ELASTIC_LOCAL_RANK
env -0 >$f.tmp && mv $f.tmp $f
exec sleep 1000`

// environ is the environment of a worker.
func (p *sandbox) environ(generation int, node string, local int) map[string]string {
	p.t.Helper()
	path := p.path(fmt.Sprintf("env.%d.%s.%d", generation, node, local))
	until(p.t, path+" is there", func() error { _, err := os.Stat(path); return err })
	vars := map[string]string{}
	for kv := range strings.SplitSeq(strings.TrimRight(content(path), "\x00"), "\x00") {
		k, v, _ := strings.Cut(kv, "=")
		vars[k] = v
	}
	return vars
}

// holds compares the variables of a process. An expected value that begins with ^ is a regular
// expression.
func (p *sandbox) holds(process string, got, want map[string]string) {
	p.t.Helper()
	for k, w := range want {
		g, ok := got[k]
		same := g == w
		if strings.HasPrefix(w, "^") {
			same = regexp.MustCompile(w).MatchString(g)
		}
		switch {
		case !ok:
			p.t.Errorf("%s: %s is not set, want %s", process, k, w)
		case !same:
			p.t.Errorf("%s: %s=%s, want %s", process, k, g, w)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	// Variables of another launcher must not reach a worker. All others must.
	p.set("RANK=77", "WORLD_SIZE=78", "MASTER_ADDR=elsewhere", "MASTER_PORT=1",
		"TORCHELASTIC_RESTART_COUNT=9", "TORCHELASTIC_RUN_ID=other", "TORCHELASTIC_OF_OLD=1",
		"PADDLE_TRAINER_ID=5", "PADDLE_TRAINER_ENDPOINTS=elsewhere:1", "CUDA_VISIBLE_DEVICES=3",
		"MINE=a b\nc")
	args := []string{"--nproc-per-node=2", "--job-id=x", "sh", "-c", dump}
	p.run(append([]string{"--np=1", "--batch-size=256", "--lr=0.1", "--node=a"}, args...)...)
	p.running("x", 1, 2)
	first := p.environ(1, "a", 1)
	p.holds("rank 1 of generation 1", first, map[string]string{
		"ELASTIC_JOB_ID": "x", "ELASTIC_GENERATION": "1", "ELASTIC_NODE": "a", "ELASTIC_RANK": "1",
		"ELASTIC_LOCAL_RANK": "1",
		"ELASTIC_WORLD_SIZE": "2", "ELASTIC_PREVIOUS_WORLD_SIZE": "0",
		"ELASTIC_RESUME_FROM": "", "ELASTIC_RESUME_STEP": "0", "ELASTIC_RESUME_SAMPLES": "0",
		"ELASTIC_GLOBAL_BATCH_SIZE": "256", "ELASTIC_BATCH_SIZE": "128", "ELASTIC_GRAD_ACCUM_STEPS": "1",
		"ELASTIC_LOSS_WEIGHT": "1",
		"ELASTIC_LR":          "0.1", "ELASTIC_LR_SCALE": "1", "RANK": "1", "WORLD_SIZE": "2",
		"TORCHELASTIC_RESTART_COUNT": "0",
		"CUDA_VISIBLE_DEVICES":       "3", "MINE": "a b\nc",
	})

	p.run(append([]string{"--np=2", "--node=b"}, args...)...)
	p.must("scale", "x", "2")
	st := p.running("x", 2, 4)
	if st.rank("a") != 0 {
		t.Errorf("the world is %v", st.World)
	}
	host, _, _ := strings.Cut(hostNode(t), ".")
	seen := p.environ(2, "b", 1)
	job := filepath.Join(p.dir, "state", "elastic", host, "nodes", "b", "jobs", "x")
	p.holds("rank 3 of generation 2", seen, map[string]string{
		"ELASTIC_JOB_ID": "x", "ELASTIC_GENERATION": "2", "ELASTIC_NODE": "b", "ELASTIC_RANK": "3",
		"ELASTIC_LOCAL_RANK": "1",
		"ELASTIC_WORLD_SIZE": "4", "ELASTIC_PREVIOUS_WORLD_SIZE": "2",
		"ELASTIC_CHECKPOINT_DIR": filepath.Join(job, "work"),
		"ELASTIC_RESUME_FROM":    "", "ELASTIC_RESUME_STEP": "0", "ELASTIC_RESUME_SAMPLES": "0",
		"ELASTIC_GLOBAL_BATCH_SIZE": "512", "ELASTIC_BATCH_SIZE": "128", "ELASTIC_GRAD_ACCUM_STEPS": "1",
		"ELASTIC_LOSS_WEIGHT": "1",
		"ELASTIC_LR":          "0.2", "ELASTIC_LR_SCALE": "2", "ELASTIC_WARMUP_SAMPLES": "0",
		"ELASTIC_PROGRESS_FILE": filepath.Join(job, "run", "2", "1", "progress.jsonl"),
		"ELASTIC_DRAIN_FILE":    filepath.Join(job, "run", "2", "drain"),
		"RANK":                  "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2",
		"GROUP_RANK":       "1",
		"GROUP_WORLD_SIZE": "2",
		"NODE_RANK":        "1", "NNODES": "2", "ROLE_RANK": "3", "ROLE_WORLD_SIZE": "4",
		"ROLE_NAME":   "default",
		"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "^[0-9]+$",
		"TORCHELASTIC_RUN_ID": "x", "TORCHELASTIC_RESTART_COUNT": "1", "TORCHELASTIC_MAX_RESTARTS": "3",
		"TORCHELASTIC_USE_AGENT_STORE": "False",
		"TORCHELASTIC_ERROR_FILE":      filepath.Join(job, "run", "2", "1", "error.json"),
		"OMP_NUM_THREADS":              "1", "PYTHONUNBUFFERED": "1",
		"PADDLE_DISTRI_BACKEND": "gloo", "PADDLE_TRAINERS": "127.0.0.1,127.0.0.1",
		"PADDLE_LOG_DIR":       p.path("log", "b"),
		"CUDA_VISIBLE_DEVICES": "3", "MINE": "a b\nc",
	})
	if v, ok := seen["TORCH_NCCL_ASYNC_ERROR_HANDLING"]; ok {
		t.Errorf("TORCH_NCCL_ASYNC_ERROR_HANDLING=%s: 1 turns off the dumps of the flight recorder", v)
	}
	if v, ok := seen["TORCHELASTIC_OF_OLD"]; ok {
		t.Errorf("inherited: TORCHELASTIC_OF_OLD=%s", v)
	}
	if seen["PADDLE_TRAINER_ID"] == "5" || strings.Contains(seen["PADDLE_TRAINER_ENDPOINTS"], "elsewhere") {
		t.Errorf("inherited: PADDLE_TRAINER_ID=%s, PADDLE_TRAINER_ENDPOINTS=%s",
			seen["PADDLE_TRAINER_ID"], seen["PADDLE_TRAINER_ENDPOINTS"])
	}
	other := p.environ(2, "a", 0)
	for _, same := range []string{"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "ELASTIC_LR",
		"TORCHELASTIC_RESTART_COUNT"} {
		if seen[same] != other[same] {
			t.Errorf("%s is %s for rank 3 and %s for rank 0", same, seen[same], other[same])
		}
	}
	if first["MASTER_PORT"] == seen["MASTER_PORT"] {
		t.Errorf("two generations have one MASTER_PORT: %s", seen["MASTER_PORT"])
	}
	for _, dir := range []string{seen["ELASTIC_CHECKPOINT_DIR"],
		filepath.Dir(seen["ELASTIC_PROGRESS_FILE"])} {
		if st, err := os.Stat(dir); err != nil || !st.IsDir() {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if _, err := os.Stat(seen["ELASTIC_DRAIN_FILE"]); err == nil {
		t.Error("the drain file is there from the beginning")
	}
}

func TestEnvironmentWithoutBatchAndRate(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	p.set("OMP_NUM_THREADS=4", "TORCH_NCCL_ASYNC_ERROR_HANDLING=0")
	p.run("--job-id=x", "--node=a", "sh", "-c", dump)
	p.running("x", 1, 1)
	seen := p.environ(1, "a", 0)
	p.holds("the worker", seen, map[string]string{"ELASTIC_LR_SCALE": "1", "OMP_NUM_THREADS": "4",
		"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"})
	for _, k := range []string{"ELASTIC_GLOBAL_BATCH_SIZE", "ELASTIC_BATCH_SIZE", "ELASTIC_LR"} {
		if v, ok := seen[k]; ok {
			t.Errorf("%s=%s, though neither batch nor rate was given", k, v)
		}
	}
}
