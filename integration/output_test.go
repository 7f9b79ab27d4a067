package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestStreams(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	// Bytes that are not text, without a newline at the end.
	x := p.run("--job-id=x", "--node=a", "sh", "-c",
		`printf 'a\000b\377\r\n\n'; printf 'words\n' >&2; printf 'no end'`)
	p.ends(x, 0)
	if got, want := x.stdout(), "a\x00b\xff\r\n\nwords\nno end"; got != want {
		t.Errorf("stdout is %q, want %q", got, want)
	}
	for line := range strings.Lines(x.stderr()) {
		if !strings.HasPrefix(line, "elastic: ") {
			t.Errorf("a line on stderr is %q", line)
		}
	}
	want := []string{
		`job x: np=1 nodes x 1 worker = world size 1; this node is a; logs in log/`,
		`started the local server for user \S+ \(pid \d+\); your terminals share it; it ends by itself`,
		`generation 1 starting: a`,
		`generation 1 running: world size 1, rank 0 here, from scratch`,
		`job x done: 1 generation, 0 nodes lost`,
	}
	re := regexp.MustCompile("^elastic: " + strings.Join(want, "\nelastic: ") + "\n$")
	if !re.MatchString(x.stderr()) {
		t.Errorf("stderr is\n%s\nwant\n%s", x.stderr(), strings.Join(want, "\n"))
	}
}

// keysOf returns the fields of each object in the schema of status.
var keysOf = map[string][]string{
	"": {"schema", "job", "state", "since", "why", "why_code", "generation", "world_size", "wish", "nodes",
		"world", "checkpoint", "plan", "progress", "restarts", "exit", "server"},
	"wish":     {"np", "min", "max", "present", "missing", "nproc_per_node", "draining", "by"},
	"nodes":    {"node", "state", "address", "workers", "incarnation", "generation", "since", "why"},
	"world":    {"node_rank", "node", "ranks"},
	"plan":     {"scaling", "global_batch_size", "batch_sizes", "grad_accum_steps", "lr", "lr_scale"},
	"progress": {"step", "loss", "samples", "samples_per_second", "time"},
	"restarts": {"used", "max"},
	"exit":     {"code", "source", "node", "rank", "local_rank", "exit_code", "signal", "message"},
	"server":   {"kind", "endpoints", "reachable"},
}

func checkSchema(t *testing.T, st map[string]any) {
	t.Helper()
	for name, fields := range keysOf {
		var objects []any
		switch v := st[name].(type) {
		case nil:
			if name == "" {
				objects = []any{st}
			}
		case []any:
			objects = v
		default:
			objects = []any{v}
		}
		for _, o := range objects {
			m, ok := o.(map[string]any)
			if !ok {
				t.Errorf("%s is %v", name, o)
				continue
			}
			for _, f := range fields {
				if _, ok := m[f]; !ok {
					t.Errorf("%s has no %s: %v", name, f, slices.Sorted(maps.Keys(m)))
				}
			}
		}
	}
	for _, list := range []string{"nodes", "world"} {
		if _, ok := st[list].([]any); !ok {
			t.Errorf("%s is %v", list, st[list])
		}
	}
	if st["schema"] != "elastic.status/1" {
		t.Errorf("schema is %v", st["schema"])
	}
	if since, ok := st["since"].(string); !ok || !moment.MatchString(since) {
		t.Errorf("since is %v", st["since"])
	}
}

var moment = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)

func (p *sandbox) object(args ...string) map[string]any {
	p.t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(p.must(append(args, "-o", "json")...)), &o); err != nil {
		p.t.Fatal(err)
	}
	return o
}

// fieldsOf has the fields of each kind of event, except rev, time, job, generation, kind, node and
// text.
var fieldsOf = map[string][]string{
	"job_created":    {"np", "min", "max", "nproc_per_node"},
	"node_joined":    {"incarnation", "address", "workers", "replaces"},
	"node_suspected": {"by", "sign"},
	"node_cleared":   {"by", "sign"},
	"node_lost":      {"reason", "confirmed_by", "after_ms"},
	"node_left":      {"reason"},
	"wish_changed":   {"np", "previous_np", "by"},
	"wait_entered":   {"why_code", "present", "np"},
	"world_proposed": {"cause", "world_size", "world", "plan", "checkpoint", "by"},
	"world_running":  {"world_size", "idle_ms", "waterfall"},
	"worker_failed":  {"rank", "local_rank", "exit_code", "signal", "collateral", "spent", "message"},
	"backoff":        {"seconds", "restarts_used", "restarts_max"},
	"save_asked":     {"reason", "grace_seconds"},
	"job_finishing":  {"rank", "left"},
	"job_done":       {"exit"},
	"job_failed":     {"exit"},
	"job_stopped":    {"exit"},

	"workers_started": {"waterfall"},
}

// checkEvents checks the fields of every event, and returns the events by kind.
func checkEvents(t *testing.T, lines string) map[string][]map[string]any {
	t.Helper()
	all := map[string][]map[string]any{}
	last := -1.0
	for line := range strings.Lines(lines) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		kind, _ := e["kind"].(string)
		fields, known := fieldsOf[kind]
		if !known {
			t.Errorf("an unknown kind: %s", line)
		}
		common := []string{"rev", "time", "job", "generation", "kind", "node", "text"}
		for _, f := range append(common, fields...) {
			if _, ok := e[f]; !ok {
				t.Errorf("%s has no %s: %s", kind, f, line)
			}
		}
		rev, _ := e["rev"].(float64)
		if rev <= last {
			t.Errorf("rev %v after %v", rev, last)
		}
		last = rev
		if when, _ := e["time"].(string); !moment.MatchString(when) {
			t.Errorf("time is %v", e["time"])
		}
		all[kind] = append(all[kind], e)
	}
	return all
}

// One job with all kinds of events: loss, failure, back-off, scale and end.
func TestEventsAndStatus(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	program := []string{"--np=2", "--job-id=x", "--batch-size=64", "--lr=0.1", "sh", "-c",
		`echo '{"step":7,"loss":0.5,"samples":70}' >>"$ELASTIC_PROGRESS_FILE"
		echo $$ >worker.$ELASTIC_NODE; until [ -e through ]; do sleep 0.05; done`}
	node := func(name string) *proc { return p.run(append([]string{"--node=" + name}, program...)...) }
	a := node("a")
	checkSchema(t, func() map[string]any { p.state("x", "waiting"); return p.object("status", "x") }())
	follow := p.start(filepath.Join(bin, "elastic"), "events", "-f", "-o", "json", "x")
	b := node("b")
	p.running("x", 1, 2)
	until(t, "the progress is reported", func() error {
		st := p.object("status", "x")
		checkSchema(t, st)
		if st["progress"] == nil || st["plan"] == nil {
			return fmt.Errorf("progress %v, plan %v", st["progress"], st["plan"])
		}
		if g := st["progress"].(map[string]any); g["step"] != 7.0 || g["loss"] != 0.5 ||
			g["samples"] != 70.0 {
			t.Fatalf("progress is %v", g)
		}
		return nil
	})
	pid := pidIn(t, p.path("worker.b"))
	p.kill(b)
	p.reaches("x", "b is lost", func(s status) error {
		if s.State != "waiting" || s.node("b") != "lost" {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	checkSchema(t, p.object("status", "x"))
	until(t, "the worker of b is gone", func() error {
		if alive(pid) {
			return fmt.Errorf("it lives")
		}
		return nil
	})
	b = node("b")
	p.running("x", 2, 2)
	// One worker fails twice: the second time it has to wait.
	for g := 2; g < 4; g++ {
		path := p.path("worker.b")
		until(t, "b's worker runs", func() error { return started(p, g, "b") })
		if err := syscall.Kill(pidIn(t, path), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		p.running("x", g+1, 2)
	}
	c := node("c")
	p.must("scale", "x", "--np=3")
	p.running("x", 5, 3)
	p.touch("through")
	for _, x := range []*proc{a, b, c, follow} {
		p.ends(x, 0)
	}
	st := p.object("status", "x")
	checkSchema(t, st)
	if st["state"] != "done" || st["exit"] == nil {
		t.Errorf("status at the end: %v, exit %v", st["state"], st["exit"])
	}

	all := checkEvents(t, follow.stdout())
	for kind, want := range map[string]int{"job_created": 1, "node_lost": 1, "world_proposed": 5,
		"world_running": 5, "worker_failed": 2,
		"backoff": 1, "wish_changed": 1, "save_asked": 1, "job_done": 1, "job_failed": 0, "job_stopped": 0} {
		if got := len(all[kind]); got != want {
			t.Errorf("%d × %s, want %d", got, kind, want)
		}
	}
	if t.Failed() {
		t.Logf("followed:\n%s", follow.stdout())
		return
	}
	causes := []string{"first", "node-lost", "worker-failed", "worker-failed", "scale"}
	for i, e := range all["world_proposed"] {
		if e["cause"] != causes[i] || e["generation"] != float64(i+1) {
			t.Errorf("world %d: %v because of %v, want %s", i+1, e["generation"], e["cause"], causes[i])
		}
	}
	if idle := all["world_running"][0]["idle_ms"]; idle != nil {
		t.Errorf("idle_ms of the first world is %v", idle)
	}
	if lost := all["node_lost"][0]; lost["node"] != "b" || lost["reason"] != "agent-gone" {
		t.Errorf("lost: %v", lost)
	}
	if w := all["wish_changed"][0]; w["np"] != 3.0 || w["previous_np"] != 2.0 || w["by"] != "scale" {
		t.Errorf("wish: %v", w)
	}
	if f := all["worker_failed"][0]; f["node"] != "b" || f["signal"] != "SIGKILL" || f["spent"] != true ||
		f["collateral"] != false {
		t.Errorf("failure: %v", f)
	}
	lives := slices.DeleteFunc(all["node_joined"], func(e map[string]any) bool { return e["node"] != "b" })
	if len(lives) != 2 || lives[1]["replaces"] != lives[0]["incarnation"] {
		t.Errorf("b came, and came back: %v", lives)
	}

	// The same events after the end of the job, and from a given revision on.
	everything := p.must("events", "x", "-o", "json")
	if !strings.HasPrefix(everything, follow.stdout()) {
		t.Errorf("what was followed is not what happened:\n%s\n%s", follow.stdout(), everything)
	}
	checkEvents(t, everything)
	rev := all["world_running"][1]["rev"].(float64)
	since := p.must("events", "x", "-o", "json", fmt.Sprintf("--since=%.0f", rev))
	if !strings.HasSuffix(everything, since) || strings.Contains(since, fmt.Sprintf(`"rev":%.0f,`, rev)) ||
		len(since) == 0 {
		t.Errorf("since %.0f:\n%s", rev, since)
	}
	if got := p.must("events", "x", "-f", "-o", "json"); got != everything {
		t.Errorf("followed after the end:\n%s", got)
	}
}

// started reports whether a worker of a generation wrote its header on a node.
func started(p *sandbox, generation int, node string) error {
	for _, h := range p.headers() {
		if strings.HasPrefix(h, fmt.Sprintf("---- elastic: generation %d, ", generation)) &&
			strings.Contains(h, "node "+node+",") {
			return nil
		}
	}
	return fmt.Errorf("no worker of generation %d on %s", generation, node)
}

func TestCommands(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	for _, c := range []string{"status", "events", "jobs", "nodes", "stop"} {
		p.refused(1, "E-NO-SERVER", c)
	}
	if len(p.servers()) > 0 {
		t.Error("a question started a server")
	}
	x := p.run("--job-id=x", "--node=a", "sh", "-c", sit)
	y := p.run("--job-id=y", "--node=a", "--np=2", "sh", "-c", sit)
	p.running("x", 1, 1)
	p.state("y", "waiting")

	p.refused(2, "E-JOB-AMBIGUOUS", "status")
	p.refused(1, "E-JOB-NONE", "status", "z")
	var jobs []map[string]any
	if err := json.Unmarshal([]byte(p.must("jobs", "-o", "json")), &jobs); err != nil || len(jobs) != 2 {
		t.Fatalf("jobs: %v, %v", jobs, err)
	}
	for _, j := range jobs {
		checkSchema(t, j)
	}
	var nodes []map[string]any
	if err := json.Unmarshal([]byte(p.must("nodes", "x", "-o", "json")), &nodes); err != nil ||
		len(nodes) != 1 ||
		nodes[0]["node"] != "a" {
		t.Fatalf("nodes: %v, %v", nodes, err)
	}
	table := p.must("status", "y")
	if lines := strings.Split(table, "\n"); !strings.HasPrefix(lines[0],
		"y  waiting: waiting for 1 more node") ||
		!strings.HasPrefix(lines[len(lines)-2], "next: ") {
		t.Errorf("status of y is\n%s", table)
	}
	if !regexp.MustCompile(`(?m)^NODE +RANKS +STATE +ADDRESS +SINCE$`).MatchString(table) {
		t.Errorf("no table of nodes in\n%s", table)
	}
	if out := p.must("jobs"); !strings.HasPrefix(out, "JOB ") || !strings.Contains(out, "\nx ") ||
		!strings.Contains(out, "\ny ") {
		t.Errorf("jobs is\n%s", out)
	}
	if out := p.must("nodes", "x"); !strings.HasPrefix(out, "NODE ") || !strings.Contains(out, "\na ") {
		t.Errorf("nodes is\n%s", out)
	}
	if out := p.must("version"); !strings.Contains(out, "elastic") {
		t.Errorf("version is %q", out)
	}

	p.refused(1, "E-JOB-LIVE", "rm", "x")
	p.must("stop", "y")
	p.ends(y, 93)
	p.must("stop") // only one job is running
	p.ends(x, 93)
	p.must("rm", "x")
	p.refused(1, "E-JOB-NONE", "status", "x")
	p.refused(1, "E-JOB-NONE", "rm", "x")

	// The name now belongs to another job, which knows nothing of the first one.
	z := p.run("--job-id=x", "--node=a", "sh", "-c", "exit 0")
	p.ends(z, 0)
	if st := p.state("x", "done"); st.Generation != 1 {
		t.Errorf("the new job begins with generation %d", st.Generation)
	}
	p.refused(2, "E-USAGE", "statsu")
}
