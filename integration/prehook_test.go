package integration

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// A node whose pre-hook fails leaves, before it joins or before a generation starts, and the user
// sees the reason. The other nodes go on, and no restart is spent.
func TestPreHookDecidesWhetherANodeRuns(t *testing.T) {
	t.Parallel()
	for name, fits := range map[string]string{
		"before it joins":     `test $ELASTIC_NODE != b`,
		"before a generation": `test $ELASTIC_NODE$ELASTIC_GENERATION != b1`,
	} {
		t.Run(name, func(t *testing.T) {
			p := newSandbox(t)
			hook := `echo hook of $ELASTIC_NODE for generation $ELASTIC_GENERATION
				` + fits + ` || { echo no disk; exit 3; }`
			args := []string{"--np=1:2", "--job-id=x", "--last-call=60s", "--max-restarts=0", "--pre-hook",
				hook, "sh", "-c", "echo world of $ELASTIC_WORLD_SIZE"}
			if name == "before it joins" {
				args[2] = "--last-call=1s"
			}
			a := p.run(append([]string{"--node=a", "--log-dir=a"}, args...)...)
			b := p.run(append([]string{"--node=b", "--log-dir=b"}, args...)...)
			p.ends(b, 125)
			p.ends(a, 0)
			if said := b.stderr(); !strings.Contains(said,
				"error: the pre-hook failed: exit status 3 [E-PRE-HOOK]\n  why: its last line: no disk\n") {
				t.Errorf("%s", said)
			}
			all := p.events("x")
			if failures := kinds(all, "worker_failed"); len(failures) != 0 {
				t.Errorf("%+v", failures)
			}
			left := kinds(all, "node_left")
			if name == "before it joins" && len(kinds(all, "node_joined")) != 1 {
				t.Errorf("b joined: %+v", all)
			}
			if name == "before a generation" && (len(left) == 0 || left[0].Reason != "unfit") {
				t.Errorf("%+v", left)
			}
			// The pre-hook of generation 1 is killed if b leaves before it has ended.
			if log := p.read("a", "prehook.log"); !strings.Contains(log, "hook of a for generation 0\n") ||
				!strings.Contains(log, "hook of a for generation 1\n") &&
					!strings.Contains(log, "hook of a for generation 2\n") {
				t.Errorf("%s", log)
			}
			if log := p.read("a", "workerlog.0"); !strings.Contains(log, "world of 1\n") {
				t.Errorf("%s", log)
			}
		})
	}
}

// As a pre-hook, elastic check tests the connections between the nodes of the generation that
// starts. As a command, it tests those of a running job.
func TestCheck(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	args := []string{"--np=3", "--job-id=x", "--max-restarts=0", "--pre-hook",
		"elastic check -o json --transfer=200ms", "sh", "-c", "until test -e ../work/end; do sleep 0.1; done"}
	var all []*proc
	for _, node := range []string{"a", "b", "c"} {
		all = append(all, p.run(append([]string{"--node=" + node, "--log-dir=" + node}, args...)...))
	}
	p.running("x", 1, 3)
	for _, node := range []string{"a", "b", "c"} {
		log := p.read(node, "prehook.log")
		if !strings.Contains(log, "this node is not in the job yet") ||
			!strings.Contains(log, `this node and 2 others reach each other`) ||
			!strings.Contains(log, `"check":"transfer"`) {
			t.Errorf("node %s:\n%s", node, log)
		}
	}
	if got := p.must("check", "x", "--transfer=200ms"); !strings.Contains(got, "3 nodes answer") ||
		!strings.Contains(got, "4 clocks within") {
		t.Errorf("%s", got)
	}
	// A node that does not answer is reported.
	all[2].kill(syscall.SIGSTOP)
	r := p.command("check", "x", "--transfer=200ms")
	if r.status != 1 || !strings.Contains(r.stderr, "[E-CHECK]") ||
		!strings.Contains(r.stdout, "c: no answer") {
		t.Errorf("status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	all[2].kill(syscall.SIGCONT)
	p.refused(2, "E-USAGE", "check", "x", "--transfer=1h")
	if r := p.command("check", "--dir=/proc"); r.status != 1 || !strings.Contains(r.stderr, "disk: /proc") {
		t.Errorf("%+v", r)
	}
	if err := os.WriteFile(p.path("end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range all {
		p.ends(x, 0)
	}
}
