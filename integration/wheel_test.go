package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A user who has the wheel alone: pip installs it in a fresh environment, the first lines of its README
// work there without anything else in PATH, and pip removes all of it.
func TestTheWheelIsAllThatAUserNeeds(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	wheel := strings.TrimSpace(p.must("wheel", p.dir))
	venv := filepath.Join(p.dir, "venv")
	do := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = p.path(), p.env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
		return string(out)
	}
	do("python3", "-m", "venv", venv)
	before := do("find", venv, "-not", "-name", "*.pyc", "-not", "-name", "__pycache__")
	pip := filepath.Join(venv, "bin", "pip")
	do(pip, "install", "--no-index", wheel)
	p.set("PATH=" + filepath.Join(venv, "bin") + ":/usr/bin:/bin")

	program := filepath.Join(venv, "bin", "elastic")
	line := []string{"run", "--np=2:4", "--job-id=x", "elastic-demo", "--steps=200", "--step-sleep=20ms"}
	a, b := p.start(program, line...), p.start(program, line...)
	p.says(a, "generation 1 running: world size 2")
	c := p.start(program, line...)
	p.says(a, "running: world size 3")
	p.kill(c)
	for _, x := range []*proc{a, b} {
		p.ends(x, 0)
	}
	if out := do(program, "status", "x"); !strings.Contains(out, "done") {
		t.Errorf("status: %s", out)
	}
	do(filepath.Join(venv, "bin", "python"), "-c", "import elastic, sys; assert elastic.__file__.startswith(sys.prefix)")

	do(pip, "uninstall", "-y", "elasticd")
	if after := do("find", venv, "-not", "-name", "*.pyc", "-not", "-name", "__pycache__"); after != before {
		t.Errorf("pip left something behind:\n%s", after)
	}
	if left, err := os.Stat(program); err == nil {
		t.Errorf("%s is left", left.Name())
	}
}
