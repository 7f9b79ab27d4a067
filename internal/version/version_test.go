package version

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// Both programs say the version that the Python package and the chart have.
func TestOneVersion(t *testing.T) {
	for _, c := range []struct{ program, ask string }{{"elastic", "version"}, {"elasticd", "--version"}} {
		bin := filepath.Join(t.TempDir(), c.program)
		build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", bin, "../../cmd/"+c.program)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		out, err := exec.CommandContext(t.Context(), bin, c.ask).CombinedOutput()
		if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), " v"+Number) {
			t.Errorf("%s %s says %q (%v), want v%s", c.program, c.ask, out, err, Number)
		}
	}
	for file, lines := range map[string][]string{
		"python/elastic/__init__.py":     {`__version__ = "` + Python() + `"`},
		"deploy/helm/elastic/Chart.yaml": {"version: " + Number, "appVersion: " + Number},
	} {
		b, err := os.ReadFile(filepath.Join("..", "..", file))
		for _, line := range lines {
			if err != nil || !strings.Contains("\n"+string(b), "\n"+line+"\n") {
				t.Errorf("%s does not say %s (%v)", file, line, err)
			}
		}
	}
}

// A build from a repository names its commit, and that files were changed since.
func TestCommit(t *testing.T) {
	settings := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "false"}}
	if s := of(settings); s != "v"+Number+"+0123456789ab" {
		t.Error(s)
	}
	settings[1].Value = "true"
	if s := of(settings); s != "v"+Number+"+0123456789ab.changed" {
		t.Error(s)
	}
}

// Pip's numbers of pre-releases.
func TestPythonic(t *testing.T) {
	for number, want := range map[string]string{
		"1.2.3": "1.2.3", "1.2.3-rc.1": "1.2.3rc1", "1.2.3-alpha.2": "1.2.3a2", "1.2.3-beta.3": "1.2.3b3",
	} {
		if got := pythonic(number); got != want {
			t.Errorf("%s is %s, want %s", number, got, want)
		}
	}
}
