package cli

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/internal/cli/command"
)

func TestNormalise(t *testing.T) {
	for line, want := range map[string]string{
		"elastic":                                "?",
		"elastic -h --np=4":                      "?",
		"status":                                 "status --",
		"status x -o json":                       "status --output=json -- x",
		"status -w x":                            "status --watch=true -- x",
		"-w status x":                            "status --watch=true -- x",
		"status --watch=false":                   "status --watch=false --",
		"scale myjob --np 4":                     "scale --np=4 -- myjob",
		"scale --np=4 myjob":                     "scale --np=4 -- myjob",
		"--np=4 --job_id=x scale":                "scale --job-id=x --np=4 --",
		"--np 4 scale x":                         "scale --np=4 -- x",
		"scale x -1":                             "scale -- x -1",
		"scale +1":                               "scale -- +1",
		"scale --if_np 2 4":                      "scale --if-np=2 -- 4",
		"scale -- x 4":                           "scale -- x 4",
		"scale --nnodes=4":                       "scale --np=4 --",
		"run --np=2 --job_id=x train --lr_max 1": "run --job-id=x --np=2 -- train --lr_max 1",
		"run --np=2 -- train --np 9":             "run --np=2 -- train --np 9",
		"run -- train -- --np 9":                 "run -- train -- --np 9",
		"run -m train -- --lr 1":                 "run --module=true -- train --lr 1",
		"run train a -- b":                       "run -- train a -- b",
		"run train -- --np 9":                    "run -- train --np 9",
		"run -np 2 train":                        "run --np=2 -- train",
		"run -np=2 train":                        "run --np=2 -- train",
		"run --np 1 --np=2 train":                "run --np=1 --np=2 -- train",
		"run --max_restart 3 train":              "run --max-restarts=3 -- train",
		"run --elastic_server h:1 train":         "run --server=h:1 -- train",
		"run --rdzv-endpoint h:1 train":          "run --rdzv-endpoint=h:1 -- train",
		"run --rdzv_endpoint=h:1 train":          "run --rdzv-endpoint=h:1 -- train",
		"run --master h:1 train":                 "run --rdzv-endpoint=h:1 -- train",
		"run --master etcd://h:1 train":          "run --server=h:1 -- train",
		"run --rdzv_id x --nproc_per_node 8 t":   "run --job-id=x --nproc-per-node=8 -- t",
		"run --rdzv-id= --local_ranks_filter= t": "run -- t",
		"run --gpus= --master= t":                "run -- t",
		"run --tee 3 -r 0:1 t":                   "run --redirects=0:1 --tee=3 -- t",
		"run --node_rank 1 --rdzv-conf=a t -m":   "run --node-rank=1 -- t -m | --rdzv-conf",
		"run --np -1 t":                          "run --np=-1 -- t",
		"run -h":                                 "run -- ?",
		"help run":                               "run -- ?",
		"--version":                              "version --",
	} {
		got, err := command.Normalise(strings.Fields(strings.TrimPrefix(line, "elastic")), commands())
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		text := ""
		if got.Command != "" {
			text = got.Command
			for _, name := range slices.Sorted(maps.Keys(got.Values)) {
				for _, v := range got.Values[name] {
					text += " --" + name + "=" + v
				}
			}
			text = strings.Join(append([]string{text, "--"}, got.Args...), " ")
		}
		if got.Help {
			text = strings.TrimSpace(text + " ?")
		}
		if len(got.Unused) > 0 {
			text += " | " + strings.Join(got.Unused, " ")
		}
		if diff := cmp.Diff(want, text); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

// Flags stand before their command, too: one spelling must mean one thing.
func TestSpellingsAgree(t *testing.T) {
	seen := map[string]command.Flag{}
	for _, c := range commands() {
		own := map[string]bool{}
		for _, f := range c.All() {
			for _, name := range append([]string{f.Name, f.Short}, f.Same...) {
				if name == "" {
					continue
				}
				if own[name] {
					t.Errorf("elastic %s has --%s twice", c.Name, name)
				}
				own[name] = true
				if o, ok := seen[name]; ok && (o.Name != f.Name || o.Kind != f.Kind) {
					t.Errorf("--%s is --%s here and --%s there", name, f.Name, o.Name)
				}
				seen[name] = f
			}
		}
	}
	for _, f := range command.Unused() {
		if _, ok := seen[f.Name]; ok {
			t.Errorf("--%s is ours, and said to be unused", f.Name)
		}
	}
}

// What a worker is given must not come back as a setting, but the job.
func TestSettingsAreNoWorkerNames(t *testing.T) {
	given := []string{
		"ELASTIC_BATCH_SIZE", "ELASTIC_CHECKPOINT_DIR", "ELASTIC_DRAIN_FILE", "ELASTIC_GENERATION",
		"ELASTIC_GLOBAL_BATCH_SIZE", "ELASTIC_GRAD_ACCUM_STEPS", "ELASTIC_LOCAL_RANK",
		"ELASTIC_LOSS_WEIGHT", "ELASTIC_LR", "ELASTIC_LR_SCALE", "ELASTIC_NODE",
		"ELASTIC_PREVIOUS_WORLD_SIZE", "ELASTIC_PROGRESS_FILE", "ELASTIC_RANK", "ELASTIC_RESUME_FROM",
		"ELASTIC_RESUME_SAMPLES", "ELASTIC_RESUME_STEP", "ELASTIC_SCALING", "ELASTIC_WARMUP_SAMPLES", "ELASTIC_WORLD_SIZE",
		"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"}
	for _, c := range commands() {
		if c.Name == "check" { // the pre-hook: it is given what a worker is given
			continue
		}
		for _, f := range c.All() {
			for _, e := range f.Env {
				if slices.Contains(given, e) {
					t.Errorf("elastic %s reads %s", c.Name, e)
				}
			}
		}
	}
}

// torchrun reads every flag from PET_NAME, too: Kubeflow's trainer sets them in place of a command
// line.
func TestVariablesOfTorchrun(t *testing.T) {
	var run command.Command
	for _, c := range commands() {
		if c.Name == "run" {
			run = c
		}
	}
	read := map[string]string{}
	for _, f := range run.All() {
		for _, e := range f.Env {
			read[e] = f.Name
		}
	}
	for variable, flag := range map[string]string{
		"PET_NNODES": "np", "PET_NPROC_PER_NODE": "nproc-per-node", "PET_RDZV_ENDPOINT": "rdzv-endpoint",
		"PET_RDZV_ID":    "job-id",
		"PET_STANDALONE": "standalone", "PET_MAX_RESTARTS": "max-restarts", "PET_ROLE": "role",
		"PET_MODULE":    "module",
		"PET_NO_PYTHON": "no-python", "PET_RUN_PATH": "run-path", "PET_LOG_DIR": "log-dir",
		"PET_REDIRECTS": "redirects", "PET_TEE": "tee",
		"PET_LOG_LINE_PREFIX_TEMPLATE": "log-line-prefix-template", "PET_LOCAL_RANKS_FILTER": "console",
		"PET_DUPLICATE_STDOUT_FILTERS": "duplicate-stdout-filters",
		"PET_DUPLICATE_STDERR_FILTERS": "duplicate-stderr-filters",
		"PET_NODE_RANK":                "node-rank", "PET_MASTER_ADDR": "master-addr",
		"PET_MASTER_PORT":  "master-port",
		"PET_LOCAL_ADDR":   "host",
		"PET_NUMA_BINDING": "numa-binding", "PET_SIGNALS_TO_HANDLE": "signals-to-handle",
		"PET_SHUTDOWN_TIMEOUT":   "shutdown-timeout",
		"PET_VIRTUAL_LOCAL_RANK": "virtual-local-rank",
	} {
		if read[variable] != flag {
			t.Errorf("%s is read for %q, want --%s", variable, read[variable], flag)
		}
	}
}
