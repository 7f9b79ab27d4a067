package options

import (
	"testing"

	"github.com/elasticd/elastic/internal/cli/command"
)

// An id counts as ours by its spelling: --job_id is that of Paddle's launcher.
func TestBorrowed(t *testing.T) {
	for id, want := range map[command.Setting]bool{
		{From: command.FromFlag, Typed: "--job-id"}:                      false,
		{From: command.FromFlag, Typed: "--job_id"}:                      true,
		{From: command.FromFlag, Typed: "--rdzv-id"}:                     true,
		{From: command.FromFlag, Typed: "--rdzv_id"}:                     true,
		{From: command.FromEnvironment, Origin: "ELASTIC_JOB_ID"}:        false,
		{From: command.FromEnvironment, Origin: "PADDLE_ELASTIC_JOB_ID"}: true,
		{From: command.FromEnvironment, Origin: "PET_RDZV_ID"}:           true,
		{From: command.FromEnvironment, Origin: "SLURM_JOB_ID"}:          true,
		{From: command.FromFile, Origin: "elastic.yaml:1: job-id"}:       false,
	} {
		if got := borrowed(id); got != want {
			t.Errorf("%+v: %v", id, got)
		}
	}
}

// A run in a worker does not see what names the outer job.
func TestOutside(t *testing.T) {
	outer := map[string]string{"ELASTIC_GENERATION": "1", "ELASTIC_RANK": "0", "ELASTIC_JOB_ID": "x",
		"PET_RDZV_ID": "x", "SLURM_JOB_ID": "7", "PADDLE_MASTER": "a:1", "ELASTIC_NP": "2", "MASTER_PORT": "1",
		"ELASTIC_SERVER": "a:2379", "PATH": "/bin"}
	get := func(name string) string { return outer[name] }
	if !Nested(get) || Nested(Outside(get)) {
		t.Errorf("nested %v, outside %v", Nested(get), Nested(Outside(get)))
	}
	for name, value := range outer {
		want := ""
		if name == "ELASTIC_SERVER" || name == "PATH" {
			want = value
		}
		if got := Outside(get)(name); got != want {
			t.Errorf("%s=%q, want %q", name, got, want)
		}
	}
}
