package integration

import (
	"strings"
	"testing"
)

// A node that fails its pre-hook leaves, before it joins or before a generation starts, and is told why. The
// others go on, and no restart is spent.
func TestPreHookDecidesWhoRuns(t *testing.T) {
	for name, hook := range map[string]string{
		"before it joins":     `echo hook of $ELASTIC_NODE for generation $ELASTIC_GENERATION; test $ELASTIC_NODE != b || { echo no disk; exit 3; }`,
		"before a generation": `echo hook of $ELASTIC_NODE for generation $ELASTIC_GENERATION; test $ELASTIC_NODE$ELASTIC_GENERATION != b1 || { echo no disk; exit 3; }`,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			args := []string{"--np=1:2", "--job-id=x", "--last-call=60s", "--max-restarts=0", "--pre-hook", hook,
				"sh", "-c", "echo world of $ELASTIC_WORLD_SIZE"}
			if name == "before it joins" {
				args[2] = "--last-call=1s"
			}
			a := p.run(append([]string{"--node=a", "--log-dir=a"}, args...)...)
			b := p.run(append([]string{"--node=b", "--log-dir=b"}, args...)...)
			p.ends(b, 125)
			p.ends(a, 0)
			if said := b.stderr(); !strings.Contains(said, "error: the pre-hook failed: exit status 3 [E-PRE-HOOK]\n  why: it said last: no disk\n") {
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
			if log := p.read("a", "prehook.log"); !strings.Contains(log, "hook of a for generation 0\n") || !strings.Contains(log, "hook of a for generation 1\n") {
				t.Errorf("%s", log)
			}
			if log := p.read("a", "workerlog.0"); !strings.Contains(log, "world of 1\n") {
				t.Errorf("%s", log)
			}
		})
	}
}
