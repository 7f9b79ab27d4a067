// Package plants_test plants bugs, one line each, and expects a test to fail. A bug that no test
// notices is a missing test.
//
// No file is edited: the go command reads the changed file through -overlay.
package plants_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// plant is a one-line bug: in file, old becomes new, and then test of pkg must fail.
type plant struct {
	bug       string
	file      string // from the root of the module
	old, new  string // old occurs exactly once in file
	pkg, test string // test as for -run
}

// testRun is a test to run in the changed module.
type testRun struct {
	pkg, test string
	seed      int // the first that it plays, where seeds is not 0
	seeds     int // that it plays; 0: as many as it does by itself
}

// few is how many bugs are planted without COUNT. The whole list takes minutes.
const few = 4

// TestPlants plants the first COUNT bugs of the list.
func TestPlants(t *testing.T) {
	count := few
	if n, err := strconv.Atoi(os.Getenv("COUNT")); err == nil {
		count = n
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Concat(plants, guards)
	for _, p := range all[:min(count, len(all))] {
		t.Run(strings.ReplaceAll(p.bug, " ", "-"), func(t *testing.T) {
			changed, err := p.plant(root)
			if err != nil {
				t.Fatal(err)
			}
			out, err := goTest(t, root, map[string][]byte{p.file: changed}, testRun{pkg: p.pkg, test: p.test})
			switch {
			case err == nil:
				t.Errorf("%s survives %s of %s: a test is missing\n%s: %s → %s\n%s", p.bug, p.test, p.pkg,
					p.file, p.old, p.new, out)
			case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]") ||
				!strings.Contains(out, "FAIL"):
				t.Errorf("%s: %v\n%s", p.bug, err, out)
			}
		})
	}
}

// TestPlantsFit checks the whole list: the code of each bug is in its file, and its test exists.
func TestPlantsFit(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range slices.Concat(plants, guards) {
		if seen[p.bug] {
			t.Errorf("%s is listed twice", p.bug)
		}
		seen[p.bug] = true
		if _, err := p.plant("../.."); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join("../..", p.pkg)); err != nil {
			t.Errorf("%s: %v", p.bug, err)
		}
		if name, _, _ := strings.Cut(p.test, "/"); !defined(t, filepath.Join("../..", p.pkg), name) {
			t.Errorf("%s: %s has no test %s", p.bug, p.pkg, name)
		}
	}
}

// plant returns the file with the bug in it.
func (p plant) plant(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, p.file))
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(text), p.old); n != 1 {
		return nil, fmt.Errorf("%s: %q is %d times in %s: the code moved, and the bug has to move along",
			p.bug, p.old, n, p.file)
	}
	return []byte(strings.Replace(string(text), p.old, p.new, 1)), nil
}

func defined(t *testing.T, dir, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+strings.Trim(test, "^$")+"(") {
			return true
		}
	}
	return false
}

// goTest runs the test that must fail, with changed files of the module.
func goTest(t *testing.T, root string, files map[string][]byte, p testRun) (string, error) {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	for name, text := range files {
		to := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(to, text, 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, name)] = to
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(at, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	run := p.test
	if !strings.Contains(run, "/") {
		run = "^" + run + "$"
	}
	timeout, count := "2m", "" // the test's own, not ours
	if p.seeds > 0 {
		timeout, count = "20m", strconv.Itoa(p.seeds)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-overlay", at, "-vet=off", "-failfast", "-count=1",
		"-timeout", timeout, "-run", run, "./"+p.pkg)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "COUNT="+count)
	if p.seeds > 0 {
		cmd.Env = append(cmd.Env, "SEED="+strconv.Itoa(p.seed))
	}
	out, err := cmd.CombinedOutput()
	if len(out) > 5000 {
		out = append(out[:1000:1000], out[len(out)-4000:]...)
	}
	return string(out), err
}
