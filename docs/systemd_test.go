package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The agent's unit does not start again after a status that a restart does not remove. Each of these
// is in the table of the reference.
func TestUnitOfAnAgent(t *testing.T) {
	unit := map[string]string{}
	for line := range strings.Lines(read(t, "deploy/systemd/elastic@.service")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && line[0] != '#' {
			unit[name] = value
		}
	}
	for name, want := range map[string]string{"RestartPreventExitStatus": "2 4 93 94 95 126 127",
		"Restart": "on-failure", "SuccessExitStatus": "75", "KillMode": "mixed", "OOMPolicy": "continue"} {
		if unit[name] != want {
			t.Errorf("%s=%s, want %s", name, unit[name], want)
		}
	}
	_, table, _ := strings.Cut(read(t, "docs/REFERENCE.md"), "\n## Exit status\n")
	table, _, _ = strings.Cut(table, "\n## ")
	for status := range strings.FieldsSeq(unit["RestartPreventExitStatus"] + " " + unit["SuccessExitStatus"]) {
		if !regexp.MustCompile(`(?m)^\| [0-9, ]*\b` + status + `\b[0-9, ]* \|`).MatchString(table) {
			t.Errorf("status %s is not in the table of REFERENCE", status)
		}
	}
}

// systemd takes both units as they are, where it is installed.
func TestUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not installed: TestUnitOfAnAgent alone has read the units")
		return
	}
	dir := t.TempDir()
	for from, to := range map[string]string{"elasticd.service": "elasticd.service",
		"elastic@.service": "elastic@x.service"} {
		text := strings.ReplaceAll(read(t, "deploy/systemd/"+from), "/usr/local/bin/", "/bin/true ")
		file := filepath.Join(dir, to)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", file).CombinedOutput()
		if err != nil || strings.Contains(string(out), to+":") {
			t.Errorf("%s: %v\n%s", from, err, out)
		}
	}
}
