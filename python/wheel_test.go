package python_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/elasticd/elastic/python"
)

// pip installs the wheel, Python imports it, and its files are those that workers are given.
func TestWheel(t *testing.T) {
	wheel, err := python.Wheel()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := python.Wheel(); err != nil || !bytes.Equal(again, wheel) {
		t.Errorf("the same files make another wheel (%v)", err)
	}
	dir := t.TempDir()
	file, installed, given := filepath.Join(dir, python.WheelName), filepath.Join(dir, "installed"),
		filepath.Join(dir, "given")
	if err := os.WriteFile(file, wheel, 0o600); err != nil {
		t.Fatal(err)
	}
	pip := exec.CommandContext(t.Context(), "python3", "-m", "pip", "install", "--no-index", "--no-deps",
		"--no-compile", "--target", installed, file)
	if out, err := pip.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := python.Write(given); err != nil {
		t.Fatal(err)
	}
	same := exec.CommandContext(t.Context(), "diff", "-r", filepath.Join(given, "elastic"),
		filepath.Join(installed, "elastic"))
	if out, err := same.CombinedOutput(); err != nil {
		t.Errorf("the wheel differs from what workers are given: %v\n%s", err, out)
	}
	script := "import elastic, importlib.metadata; print(elastic.world().size, " +
		"importlib.metadata.version('elastic-helper'))"
	cmd := exec.CommandContext(t.Context(), "python3", "-B", "-c", script)
	cmd.Env = []string{"PYTHONPATH=" + installed, "PATH=" + os.Getenv("PATH")}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "1 "+python.Version+"\n" {
		t.Errorf("%q, %v", out, err)
	}
}
