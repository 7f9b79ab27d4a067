package python_test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/elasticd/elastic/python"
)

// The unit tests of the helper that workers get, by the interpreter of this machine, and those that need
// torch by Debian's, or by TORCH.
func TestHelper(t *testing.T) {
	dir := t.TempDir()
	if err := python.Write(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tests", "warm"} {
		at, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(at, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	runModules(t, dir, "tests", "python3", "-W", "error")
	runModules(t, dir, "tests/with_torch", cmp.Or(os.Getenv("TORCH"), "/usr/bin/python3"))
}

// runModules runs the modules of tests in a directory.
func runModules(t *testing.T, dir, at string, command ...string) {
	t.Helper()
	modules, err := filepath.Glob(at + "/test_*.py")
	if err != nil || len(modules) == 0 {
		t.Fatal(modules, err)
	}
	for _, module := range modules {
		name := strings.TrimSuffix(module, ".py")
		t.Run(filepath.Base(name), func(t *testing.T) {
			args := append(slices.Clone(command[1:]), "-B", "-m", "unittest", strings.ReplaceAll(name, "/", "."))
			cmd := exec.CommandContext(t.Context(), command[0], args...)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}

// A worker imports what Write wrote, from a directory that an older version used before.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "elastic"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"__init__.py": "raise SystemExit('old')", "gone.py": ""} {
		if err := os.WriteFile(filepath.Join(dir, "elastic", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := python.Write(dir); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "python3", "-B", "-c",
		"import elastic, os; print(elastic.world().size, "+
			"os.path.exists(os.path.join(os.path.dirname(elastic.__file__), 'gone.py')))")
	cmd.Env = []string{"PYTHONPATH=" + dir, "PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "1 False\n" {
		t.Errorf("%q, %v", out, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "elastic", ".new-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}
