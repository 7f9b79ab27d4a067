package integration

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// slow limits the network rate of a machine, in both directions.
func (l *testbed) slow(name, rate string) {
	l.t.Helper()
	port := "p" + string(rune('1'+slices.Index(l.names, name)))
	for ns, device := range map[string]string{l.ns(name): "eth0", l.ns("switch"): port} {
		out, err := exec.Command("tc", "-n", ns, "qdisc", "add", "dev", device, "root", "tbf", "rate", rate,
			"burst", "32kbit", "latency", "400ms").CombinedOutput()
		if err != nil {
			l.t.Fatalf("tc: %v: %s", err, out)
		}
	}
}

// `elastic check` reports a node whose link is much slower than those of its peers, and no other
// node.
func TestSlowLinkIsNamed(t *testing.T) {
	t.Parallel()
	l := newTestbed(t, "a", "b", "c", "d")
	l.slow("c", "20mbit")
	l.all("--np=4", "--job-id=x", "sh", "-c", sit)
	l.running("x", 1, 4)
	check := exec.CommandContext(t.Context(), "nsenter",
		l.inside("server", filepath.Join(bin, "elastic"), "check", "x",
			"--server="+l.at, "--dir="+l.dir, "--min-free=1", "--transfer=2s", "-o", "json")...)
	check.Env = l.env
	out, err := check.Output() // an error: it exits with a status for the slow node
	if err == nil {
		t.Error("a slow node is no failure")
	}
	var found struct {
		Checks []struct {
			Check, Text string
			Nodes       []string
		}
	}
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	named := map[string][]string{}
	for _, f := range found.Checks {
		t.Logf("%s: %s", f.Check, f.Text)
		named[f.Check] = f.Nodes
	}
	if !slices.Equal(named["transfer"], []string{"c"}) || len(named["addresses"]) > 0 {
		t.Errorf("the checks name %v", named)
	}
}
