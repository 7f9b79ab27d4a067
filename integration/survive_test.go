package integration

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// wholeNode runs testdata/whole.py, which saves one file again and again.
func wholeNode(p *sandbox, node, size, how, pause string, more ...string) *proc {
	script, err := filepath.Abs("testdata/whole.py")
	if err != nil {
		p.t.Fatal(err)
	}
	flags := append([]string{"--node=" + node, "--np=2", "--job_id=x", "--max-restarts=100000",
		"--log-dir=log-" + node}, more...)
	return p.run(append(flags, "/usr/bin/python3", script, size, how, pause)...)
}

// sizeOr returns SIZE, in bytes, or the size for `make test`.
func sizeOr(t testing.TB, small int) string {
	v := os.Getenv("SIZE")
	if v == "" {
		return strconv.Itoa(small)
	}
	if n, err := strconv.Atoi(v); err != nil || n < 1<<20 {
		t.Fatalf("SIZE=%s: bytes, a megabyte or more", v)
	}
	return v
}

// workersOf are the worker processes of a node.
func (p *sandbox) workersOf(node, program string) []process {
	return processes(func(_ int, line string, environ []byte) bool {
		environ = append([]byte{0}, append(environ, 0)...)
		return strings.Contains(line, program) &&
			bytes.Contains(environ, []byte("\x00ELASTIC_NODE="+node+"\x00")) &&
			bytes.Contains(environ, []byte("\x00XDG_RUNTIME_DIR="+filepath.Join(p.dir, "run")+"\x00"))
	})
}

// commitsOf waits until a generation has made n commits.
func (p *sandbox) commitsOf(job string, g, n int) {
	p.t.Helper()
	until(p.t, fmt.Sprintf("generation %d committed %d times", g, n), func() error {
		made := 0
		for _, e := range kinds(p.events(job), "checkpoint_committed") {
			if e.Generation == g {
				made++
			}
		}
		if made < n {
			return fmt.Errorf("%d times", made)
		}
		return nil
	})
}

// after waits for a generation beyond g that runs with n workers.
func (p *sandbox) after(job string, g, n int) status {
	p.t.Helper()
	return p.reaches(job, fmt.Sprintf("a generation after %d running with %d workers", g, n),
		func(s status) error {
			if s.State != "running" || s.Generation <= g || s.WorldSize != n {
				return fmt.Errorf("not so")
			}
			return nil
		})
}

// anyTime waits for a random time up to d, so that the fault comes at a random time.
func anyTime(d time.Duration) { time.Sleep(rand.N(d)) }

// A worker is killed at random times while it overwrites a file in place. The next generation loads
// a complete file, the same on both nodes, and never an older one than before.
func TestOverwrittenInPlaceAndKilled(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	size := sizeOr(t, 8<<20)
	start := func(node string) *proc { return wholeNode(p, node, size, "inplace", "2") }
	nodes := map[string]*proc{"a": start("a"), "b": start("b")}
	st := p.running("x", 1, 2)
	for round := range 2 * soak(t) {
		p.commitsOf("x", st.Generation, 1)
		zero := "a"
		if st.rank("a") != 0 {
			zero = "b"
		}
		anyTime(3 * time.Second)
		// a failure of the script itself, seldom: each one makes the next restart wait longer
		if round%10 == 0 {
			for _, w := range p.workersOf(zero, "whole.py") {
				w.signal(syscall.SIGKILL)
			}
		} else {
			p.kill(nodes[zero])
			<-nodes[zero].done
			nodes[zero] = start(zero)
		}
		st = p.after("x", st.Generation, 2)
	}
	from := p.loaded(st.Generation)
	t.Logf("%d generations, the last from step %d", st.Generation, from[len(from)-1])
	p.must("stop", "x")
}

var loaded = regexp.MustCompile(`(?m)^generation (\d+) rank \d+: from step (\d+)$`)

// loaded returns the steps from which the generations up to g began, in order. They must rise.
func (p *sandbox) loaded(g int) (from []int) {
	p.t.Helper()
	until(p.t, fmt.Sprintf("both ranks of generation %d say what they loaded", g), func() error {
		if n := len(regexp.MustCompile(fmt.Sprintf(`(?m)^generation %d rank \d: `, g)).
			FindAllString(p.logs("log-*"), -1)); n < 2 {
			return fmt.Errorf("%d do", n)
		}
		return nil
	})
	logs := p.logs("log-*")
	if strings.Contains(logs, "TORN") {
		p.t.Errorf("a file was loaded that is not whole:\n%s", logs)
	}
	byGeneration := map[int][]int{}
	for _, m := range loaded.FindAllStringSubmatch(logs, -1) {
		g, _ := strconv.Atoi(m[1])
		step, _ := strconv.Atoi(m[2])
		byGeneration[g] = append(byGeneration[g], step)
	}
	for i := 1; i <= g; i++ {
		steps := byGeneration[i]
		if len(steps) == 0 {
			continue // cut short before its workers began
		}
		if slices.Min(steps) != slices.Max(steps) {
			p.t.Errorf("generation %d loaded different saves: %v", i, steps)
		}
		if len(from) > 0 && steps[0] < from[len(from)-1] {
			p.t.Errorf("generation %d went back to step %d, after %v", i, steps[0], from)
		}
		from = append(from, steps[0])
	}
	return from
}

// The node of rank 0 is frozen during its saves until it is evicted. It runs again when the next
// generation has committed. Then no save of the old generation is committed, no disk goes back to
// an older generation, and the node can join again.
func TestFrozenRankZeroCommitsNothingLate(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	size := sizeOr(t, 16<<20)
	nodes := map[string]*proc{}
	for _, n := range []string{"a", "b", "c"} {
		nodes[n] = wholeNode(p, n, size, "rename", "0.1")
	}
	st := p.running("x", 1, 2)
	var number, newest int
	var rev int64
	commits := func() { // of each round, since a job keeps its newest events only
		for _, e := range p.events("x") {
			if e.Rev <= rev {
				continue
			}
			rev = e.Rev
			switch e.Kind {
			case "world_proposed":
				newest = e.Generation
			case "checkpoint_committed":
				if number++; e.Number != number {
					t.Errorf("checkpoint %d was committed as the %dth", e.Number, number)
				}
				if e.Generation != newest {
					t.Errorf("checkpoint %d is of generation %d, %d was proposed before",
						e.Number, e.Generation, newest)
				}
			}
		}
	}
	for round := range soak(t) {
		g := st.Generation
		p.reaches("x", "all nodes are here", func(s status) error {
			for _, n := range []string{"a", "b", "c"} {
				if x := s.node(n); x != "running" && x != "spare" {
					return fmt.Errorf("%s is %q", n, x)
				}
			}
			return nil
		})
		p.commitsOf("x", g, 2)
		zero := ""
		for n := range nodes {
			if st.rank(n) == 0 {
				zero = n
			}
		}
		anyTime(time.Second)
		signals := func(s syscall.Signal) {
			if err := nodes[zero].kill(s); err != nil {
				t.Fatal(err)
			}
			if round%2 == 0 { // else its worker goes on writing all the time
				for _, w := range p.workersOf(zero, "whole.py") {
					w.signal(s)
				}
			}
		}
		signals(syscall.SIGSTOP)
		st = p.after("x", g, 2)
		p.commitsOf("x", st.Generation, 2)
		before := p.seen()
		signals(syscall.SIGCONT)
		p.reaches("x", zero+" stands by", func(s status) error {
			if x := s.node(zero); x != "spare" {
				return fmt.Errorf("%s is %q", zero, x)
			}
			return nil
		})
		p.commitsOf("x", st.Generation, 4)
		for file, was := range before {
			if now := p.seen()[file]; now < was {
				t.Errorf("%s fell from %d to %d", file, was, now)
			}
		}
		st = p.running("x", st.Generation, 2)
		commits()
	}
	p.loaded(st.Generation)
	p.must("stop", "x")
	for _, x := range nodes {
		p.ends(x, 93)
	}
	p.must("ckpt", "verify", "--job-id=x")
}

// seen returns the highest generation that each node and each chunk store of this sandbox has on
// its disk, by file.
func (p *sandbox) seen() map[string]int {
	p.t.Helper()
	all := map[string]int{}
	for _, pattern := range []string{"generation", "store/generation"} {
		nodes := filepath.Join(p.dir, "state", "elastic", "*", "nodes")
		files, err := filepath.Glob(filepath.Join(nodes, "*", "jobs", "x", pattern))
		if err != nil {
			p.t.Fatal(err)
		}
		for _, f := range files {
			g, err := strconv.Atoi(strings.TrimSpace(content(f)))
			if err != nil {
				p.t.Fatalf("%s: %v", f, err)
			}
			all[f] = g
		}
	}
	if len(all) == 0 {
		p.t.Fatal("no node noted a generation")
	}
	return all
}

// Two nodes, and then five, load a checkpoint of three nodes, each from its own disk. All bytes are
// equal.
func TestSavedByThreeLoadedByTwoAndFive(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	const printsWhatItLoads = `[ -z "$ELASTIC_RESUME_FROM" ] ||
		find "$ELASTIC_RESUME_FROM" -type f | sort | xargs cat | sha256sum |
		sed "s/^/generation $ELASTIC_GENERATION of $ELASTIC_WORLD_SIZE loads /"; exec elastic-demo "$@"`
	node := func(name string) *proc {
		return p.run("--node="+name, "--np=3", "--job_id=x", "--batch-size=240", "--lr=0.1",
			"--scaling=fixed-batch", "--keep=100", "--log-dir=log-"+name,
			"sh", "-c", printsWhatItLoads, "sh", "--steps=100000", "--step-sleep=10ms", "--save-every=300ms")
	}
	nodes := []*proc{node("a"), node("b"), node("c")}
	p.running("x", 1, 3)
	p.committed("x", 2)
	p.must("scale", "x", "--np=2")
	p.running("x", 2, 2)
	p.commitsOf("x", 2, 1)
	nodes = append(nodes, node("d"), node("e"))
	p.reaches("x", "five nodes are here", func(s status) error {
		if s.node("d") != "spare" || s.node("e") != "spare" {
			return fmt.Errorf("not so")
		}
		return nil
	})
	p.must("scale", "x", "--np=5")
	p.running("x", 3, 5)
	for g, n := range map[int]int{2: 2, 3: 5} {
		loads := regexp.MustCompile(fmt.Sprintf(`(?m)^generation %d of %d loads ([0-9a-f]{64})`, g, n))
		var sums []string
		until(t, fmt.Sprintf("the %d workers of generation %d say what they load", n, g), func() error {
			sums = nil
			for _, m := range loads.FindAllStringSubmatch(p.logs("log-*"), -1) {
				sums = append(sums, m[1])
			}
			if len(sums) != n {
				return fmt.Errorf("%d do", len(sums))
			}
			return nil
		})
		if slices.Sort(sums); sums[0] != sums[n-1] {
			t.Errorf("generation %d loads different bytes: %v", g, sums)
		}
		number := ""
		for _, x := range nodes {
			if m := regexp.MustCompile(fmt.Sprintf(`generation %d running: .* from checkpoint (\d+)`, g)).
				FindStringSubmatch(x.stderr()); m != nil {
				number = m[1]
			}
		}
		dir := fmt.Sprint("out-", g)
		p.must("ckpt", "get", number, dir, "--job-id=x")
		if want := strings.Fields(p.sum(dir))[0]; sums[0] != want {
			t.Errorf("generation %d loads %s, checkpoint %s is %s", g, sums[0], number, want)
		}
	}
	p.must("stop", "x")
	for _, x := range nodes {
		p.ends(x, 93)
	}
}

// sum is the hash of all files below a directory, in the order of their names.
func (p *sandbox) sum(dir string) string {
	p.t.Helper()
	x := p.start("sh", "-c", `find "$1" -type f | sort | xargs cat | sha256sum`, "sh", dir)
	p.ends(x, 0)
	return x.stdout()
}

// Nodes leave on request and come back, also that of rank 0. No step is made twice.
func TestPoliteLeavesLoseNoStep(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	start := func(name string) *proc {
		return p.run("--node="+name, "--np=1:2", "--job_id=x", "--last-call=200ms", "--batch-size=256",
			"--lr=0.1", "--scaling=fixed-batch", "--log-dir=log-"+name, "train", "--steps=100000",
			"--step-sleep=5ms", "--save-every=300ms")
	}
	nodes := map[string]*proc{"a": start("a"), "b": start("b")}
	st := p.after("x", 0, 2)
	for range soak(t) {
		for _, leaver := range []string{"a", "b"} {
			p.commitsOf("x", st.Generation, 1)
			if err := nodes[leaver].kill(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			p.ends(nodes[leaver], 75)
			st = p.after("x", st.Generation, 1)
			p.commitsOf("x", st.Generation, 1)
			nodes[leaver] = start(leaver)
			st = p.after("x", st.Generation, 2)
		}
	}
	p.must("stop", "x")
	for _, x := range nodes {
		p.ends(x, 93)
	}
	p.noStepTwice()
	for _, e := range p.events("x") {
		if e.Kind == "node_lost" || e.Kind == "worker_failed" {
			t.Errorf("a polite leave caused %+v", e)
		}
	}
}

var (
	stoppedAfter = regexp.MustCompile(`(?m)^elastic-demo: rank 0: stopped, as asked after step (\d+)`)
	startedFrom  = regexp.MustCompile(
		`(?m)^generation (\d+): world \d+, batch \d+, lr [0-9.]+, from step (\d+)`)
)

// noStepTwice reads in the logs of `train` that each generation went on after the last step of the
// one before.
func (p *sandbox) noStepTwice() {
	p.t.Helper()
	logs := p.logs("log-*")
	var ends, begins []int
	for _, m := range stoppedAfter.FindAllStringSubmatch(logs, -1) {
		n, _ := strconv.Atoi(m[1])
		ends = append(ends, n)
	}
	for _, m := range startedFrom.FindAllStringSubmatch(logs, -1) {
		if n, _ := strconv.Atoi(m[2]); n > 0 {
			begins = append(begins, n)
		}
	}
	slices.Sort(ends)
	slices.Sort(begins)
	begins = slices.Compact(begins) // reported by each worker, or by one
	if len(ends) == 0 || len(begins) == 0 || !slices.Equal(ends[:len(ends)-1], begins) {
		p.t.Errorf("generations ended after the steps %v, and began with %v", ends, begins)
	}
}

// Nodes that share one checkpoint directory get a notice. Only rank 0's node captures from it and
// restores into it. A new node fetches nothing, and finds the checkpoint there.
func TestSharedCheckpointDirectory(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	start := func(node string) *proc {
		return wholeNode(p, node, "1048576", "rename", "0.2", "--replicas=1", "--checkpoint-dir="+
			p.path("shared"))
	}
	nodes := map[string]*proc{"a": start("a"), "b": start("b")}
	st := p.running("x", 1, 2)
	p.committed("x", 2)
	other, zero := "b", "a"
	if st.rank("a") != 0 {
		other, zero = "a", "b"
	}
	p.kill(nodes[other])
	p.state("x", "waiting")
	if err := os.Remove(p.path("shared", "model.raw")); err != nil {
		t.Fatal(err)
	}
	nodes["c"] = start("c")
	st = p.after("x", 1, 2)
	// rank 0 may have saved again by then, as all nodes share the directory
	until(t, "both ranks load something", func() error {
		if logs := p.logs(
			"log-*"); len(regexp.MustCompile(fmt.Sprintf(`(?m)^generation %d rank [01]: from step [1-9]`,
			st.Generation)).FindAllString(logs, -1)) != 2 {
			return fmt.Errorf("the workers say\n%s", logs)
		}
		return nil
	})
	for _, n := range []string{zero, "c"} {
		p.says(nodes[n], "the checkpoint directory is one that nodes share")
	}
	files, err := filepath.Glob(filepath.Join(p.dir, "state", "elastic", "*", "nodes", "c", "jobs", "x",
		"store", "*", "????????????????*"))
	if err != nil || len(files) > 0 {
		t.Errorf("the node that came anew fetched: %v %v", files, err)
	}
	p.must("stop", "x")
	for _, n := range []string{zero, "c"} {
		p.ends(nodes[n], 93)
	}
	// of the one that was killed
	if left, err := filepath.Glob(p.path("shared", ".elastic-node-*")); err != nil || len(left) != 1 {
		t.Errorf("marks left: %v %v", left, err)
	}
}
