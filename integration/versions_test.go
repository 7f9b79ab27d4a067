//go:build frameworks

package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Each Python and torch that integration/frameworks.sh could install has the tests of the helper and an
// example of the training function.
func TestVersions(t *testing.T) {
	all, err := filepath.Glob(filepath.Join(os.Getenv("FRAMEWORKS"), "matrix-*", "bin", "python"))
	if err != nil || len(all) == 0 {
		t.Fatalf("make frameworks has the interpreters: %q, %v", all, err)
	}
	for _, python := range all {
		t.Run(filepath.Base(filepath.Dir(filepath.Dir(python))), func(t *testing.T) {
			units := exec.CommandContext(t.Context(), python, "-B", "-m", "unittest", "discover", "-t", ".", "-s", "tests")
			units.Dir = filepath.Join("..", "python")
			if out, err := units.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, tail(string(out)))
			}
			story{example: "llm/train.py", python: python, wheel: true, flags: fixedBatch(), pause: "0.6",
				tolerance: 1e-9}.play(t)
		})
	}
}
