package integration

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What `make gpu` runs on a machine with GPUs runs here on processors: the first row of the part about
// checkpoints, and that of the part about changes.
func TestGPUProgramsRunDry(t *testing.T) {
	t.Parallel()
	helper, err := filepath.Abs("../python")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), cmp.Or(os.Getenv("TORCH"), "/usr/bin/python3"), "-B",
		"../bench/gpu/run.py", "--dry", "--quick", "--parts=ac", "--bin="+bin)
	cmd.Env = append(os.Environ(), "HELPER="+helper)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, line := range []string{
		"(a) three ranks: kill, join, crash, freeze [dry: CPU and gloo, no GPU]",
		"checked: in place: parameters equal on 2 ranks, and with the undisturbed run to 1e-9",
		"checked: 64 MiB: the newest save has all bytes and two copies",
	} {
		if !strings.Contains(string(out), line) {
			t.Errorf("%q is not said:\n%s", line, out)
		}
	}
}
