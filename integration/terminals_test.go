package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// sit is a worker that writes its process number to a file, and waits.
	sit = `echo $$ >worker.$ELASTIC_NODE; exec sleep 1000`
	// breed is a worker that has started a process that would outlive it.
	breed = `echo $$ >worker.$ELASTIC_NODE
setsid sleep 1000 & echo $! >grandchild.$ELASTIC_NODE
exec sleep 1000`
)

// hostNode is the name of the first node of this machine.
func hostNode(t *testing.T) string {
	t.Helper()
	h, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	h, _, _ = strings.Cut(h, ".")
	return h
}

func TestThreeTerminals(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	p.set("ELASTICD_IDLE=2s")
	first, second := hostNode(t), hostNode(t)+"-2"

	// The output of the first terminal goes into a pipe. This terminal also starts the server.
	terminal := p.start("sh", "-c",
		`sh -c 'echo $$ >agent; exec elastic run --np=2 --job_id=x sh -c "$0"' '`+breed+`' 2>&1 | tee seen`)
	until(t, "the first agent waits", func() error {
		if seen := content(p.path("seen")); !strings.Contains(seen, "waiting for 1 more node (1 of 2)") {
			return fmt.Errorf("it said %q", seen)
		}
		return nil
	})
	agent := pidIn(t, p.path("agent"))
	server := p.localServer()
	b := p.run("--np=2", "--job_id=x", "sh", "-c", breed)
	st := p.running("x", 1, 2)
	if st.rank(first) != 0 && st.rank(second) != 0 {
		t.Fatalf("the world is %v", st.World)
	}
	survivor := st.rank(second)
	lost := []int{pidIn(t, p.path("worker."+first)), pidIn(t, p.path("grandchild."+first))}
	stays := []int{pidIn(t, p.path("worker."+second)), pidIn(t, p.path("grandchild."+second))}

	if err := syscall.Kill(agent, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	within(t, time.Second, "worker and grandchild of the killed agent are gone", func() error {
		if i := slices.IndexFunc(lost, alive); i >= 0 {
			return fmt.Errorf("%s lives", []string{"the worker", "the grandchild"}[i])
		}
		return nil
	})
	p.ends(terminal, 0) // tee sees the end of its input: no other process has it
	p.reaches("x", "waiting for the one that was lost", func(s status) error {
		if s.State != "waiting" || s.WhyCode != "nodes-missing" || s.node(first) != "lost" ||
			s.node(second) != "waiting" {
			return fmt.Errorf("not yet")
		}
		if !strings.HasPrefix(s.Why, "waiting for 1 more node") ||
			!strings.Contains(s.Why, first+" was lost") {
			return fmt.Errorf("why does not name the node that is waited for")
		}
		return nil
	})
	p.says(b, "wait: "+first+" was lost")
	until(t, "the other worker stopped, with all of its processes", func() error {
		if i := slices.IndexFunc(stays, alive); i >= 0 {
			return fmt.Errorf("%d lives", stays[i])
		}
		return nil
	})
	if p.localServer() != server || !alive(server.pid) {
		t.Error("the server did not stay")
	}

	// The same line again.
	a := p.run("--np=2", "--job_id=x", "sh", "-c", breed)
	st = p.running("x", 2, 2)
	if got := st.rank(second); got != survivor {
		t.Errorf("the survivor's rank was %d and is %d", survivor, got)
	}
	if st.rank(first) < 0 {
		t.Errorf("the one that came back is not %s: %v", first, st.World)
	}

	// No job is named: there is only one.
	scale := p.start(filepath.Join(bin, "elastic"), "scale", "--np=4")
	p.says(scale, "waiting for 2 more nodes (2 of 4)")
	p.run("--np=2", "--job_id=x", "sh", "-c", breed)
	late := p.run("--np=4", "--job_id=x", "sh", "-c", breed)
	st = p.running("x", 3, 4)
	p.ends(scale, 0)
	if got, want := scale.stdout(),
		"job x scaled to 4: generation 3 running; did not save: there is no checkpoint\n"; got != want {
		t.Errorf("scale said %q, want %q", got, want)
	}
	if st.rank(first) == survivor || st.rank(second) != survivor || st.rank(first) > 1 {
		t.Errorf("ranks moved: %v", st.World)
	}
	p.says(late, "generation 3 running: world size 4")
	if p.localServer() != server {
		t.Error("there is another server now")
	}

	p.must("stop", "x")
	for _, x := range []*proc{a, b, late} {
		p.ends(x, 93)
	}
	until(t, "the idle server ends by itself", func() error {
		if left := p.servers(); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
}

func TestTenAtOnce(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	const n = 10
	for range n {
		p.run("--np=10", "--job-id=ten", "sh", "-c", "exec sleep 1000")
	}
	st := p.running("ten", 1, n)
	if len(st.World) != n {
		t.Errorf("the world has %d nodes", len(st.World))
	}
	until(t, "every worker was started", func() error {
		if h := p.headers(); len(h) != n {
			return fmt.Errorf("%d were", len(h))
		}
		return nil
	})
	p.oneStart(n, 1)
	all := p.events("ten")
	for kind, want := range map[string]int{"job_created": 1, "node_joined": n, "world_proposed": 1,
		"world_running": 1, "node_lost": 0, "node_suspected": 0} {
		if got := len(kinds(all, kind)); got != want {
			t.Errorf("%d × %s, want %d", got, kind, want)
		}
	}
}

// headers are the lines in all logs of workers that say that one was started.
func (p *sandbox) headers() (all []string) {
	files, _ := filepath.Glob(p.path("log", "workerlog.*"))
	more, _ := filepath.Glob(p.path("log", "*", "workerlog.*"))
	for _, f := range append(files, more...) {
		for line := range strings.Lines(content(f)) {
			if strings.HasPrefix(line, "---- elastic: generation ") {
				all = append(all, line)
			}
		}
	}
	return all
}

// oneStart checks that exactly n workers were started so far, each once, of generation g.
func (p *sandbox) oneStart(n, g int) {
	p.t.Helper()
	h := p.headers()
	seen := map[string]bool{}
	for _, line := range h {
		if !strings.HasPrefix(line, fmt.Sprintf("---- elastic: generation %d, rank ", g)) {
			p.t.Errorf("started: %s", line)
		}
		rank, _, _ := strings.Cut(strings.SplitN(line, "rank ", 2)[1], ",")
		seen[rank] = true
	}
	if len(h) != n || len(seen) != n {
		p.t.Errorf("%d starts of %d ranks, want %d of each", len(h), len(seen), n)
	}
}
