package launch_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/internal/launch"
)

func TestExpand(t *testing.T) {
	env := []string{"ELASTIC_BATCH_SIZE=64", "ELASTIC_LR=0.2", "ELASTIC_RESUME_FROM=", "HOME=/root"}
	args := []string{"train.py", "--batch={batch_size}", "--lr", "{lr}", "--from={resume_from}",
		`{"json": "{lr}"}`, "{}", "{LR}"}
	got, err := launch.Expand(args, env)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"train.py", "--batch=64", "--lr", "0.2", "--from=", `{"json": "0.2"}`, "{}", "{LR}"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if args[1] != "--batch={batch_size}" {
		t.Error("the arguments themselves changed")
	}
	if _, err := launch.Expand([]string{"{lr_scale}"}, env); !errors.Is(err, launch.ErrPlaceholder) {
		t.Errorf("a value that the worker is not given: %v", err)
	}
}

func TestCheckPlaceholders(t *testing.T) {
	for arg, known := range map[string]bool{
		"{batch_size}": true, "{global_batch_size}": true, "{lr}": true, "{rank}": true, "{world_size}": true,
		"no braces": true, "{}": true, "{not json}": true, "{learning_rate}": false, "{home}": false,
	} {
		if err := launch.CheckPlaceholders([]string{arg}); (err == nil) != known {
			t.Errorf("%s: %v", arg, err)
		}
	}
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
