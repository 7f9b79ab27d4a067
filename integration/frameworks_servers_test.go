//go:build frameworks

package integration

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	passed   = regexp.MustCompile(`(?m)^pass (\d+): loss ([\d.]+)$`)
	beginsAt = regexp.MustCompile(`(?m)^generation (\d+) trainer (\d+) of (\d+): from pass (\d+)$`)
)

// tables is a job of examples/wide_and_deep: real Paddle, two servers with tables.
type tables struct {
	*sandbox
	nodes   map[string]*proc
	servers int
}

func (j *tables) join(names ...string) {
	j.t.Helper()
	for _, name := range names {
		j.nodes[name] = j.run("--np=3", "--job-id=x", "--node="+name, "--log-dir=log-"+name,
			fmt.Sprintf("--server_num=%d", j.servers), "--save-from=all", "train.py", "--passes=100000", "--pause=0.3")
	}
}

// losses are those of the passes of one trainer, in the order of its log.
func (j *tables) losses(node string) (all []float64) {
	for _, m := range passed.FindAllStringSubmatch(content(j.path("log-"+node, "workerlog.0")), -1) {
		loss, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			j.t.Fatal(err)
		}
		all = append(all, loss)
	}
	return all
}

// learns waits until a trainer has made so many more passes. The loss of the last one must be that
// of a table that has learned. A new table has a loss of 0.7.
func (j *tables) learns(node string, more int) {
	j.t.Helper()
	from := len(j.losses(node))
	within(j.t, 2*time.Minute, fmt.Sprintf("%s makes %d passes", node, more), func() error {
		if n := len(j.losses(node)); n < from+more {
			return fmt.Errorf("%d", n-from)
		}
		return nil
	})
	if all := j.losses(node); all[len(all)-1] > 0.25 {
		j.t.Errorf("the losses of %s: %v", node, all)
	}
}

// starts is how often the server on a node was started.
func (j *tables) starts(node string) int {
	return strings.Count(content(j.path("log-"+node, "serverlog.0")), "running server with rank id")
}

// newest is the step of the newest commit.
func (j *tables) newest() (step int) {
	for _, e := range kinds(j.events("x"), "checkpoint_committed") {
		step = e.Step
	}
	return step
}

// from is the pass from which the trainers of a generation go on: the same for each.
func (j *tables) from(g, size int) (pass int) {
	j.t.Helper()
	within(j.t, 2*time.Minute, fmt.Sprintf("the trainers of generation %d begin", g), func() error {
		trainers := map[string]bool{}
		for _, m := range beginsAt.FindAllStringSubmatch(j.logs("log-*"), -1) {
			if m[1] == strconv.Itoa(g) && m[3] == strconv.Itoa(size) {
				trainers[m[2]] = true
				pass, _ = strconv.Atoi(m[4])
			}
		}
		if len(trainers) < size {
			return fmt.Errorf("%d of %d do", len(trainers), size)
		}
		return nil
	})
	return pass
}

// Wide & deep on a real Paddle of version 2.6.2, with two servers and three trainers on three
// nodes. The tables learn. A trainer that is killed is started again alone. If a server is lost
// with its node and its disk, all processes go on from the newest committed tables. The number of
// trainers changes from 3 to 2 and to 4 while the servers stay. One server loads what two have
// saved.
func TestFrameworksServers(t *testing.T) {
	for range soak(t) {
		p := newSandbox(t)
		p.installed(framework("ps"))
		p.example("wide_and_deep")
		j := &tables{sandbox: p, nodes: map[string]*proc{}, servers: 2}
		j.join("a", "b", "c")
		j.from(1, 3)
		j.learns("a", 10)

		killed := p.workersOf("c", "train.py")
		if len(killed) == 0 {
			t.Fatal("node c has no trainer")
		}
		killed[0].signal(syscall.SIGKILL)
		p.says(j.nodes["c"], "it is started again alone (1 of 3), the others go on")
		j.learns("c", 4)

		within(t, 2*time.Minute, "tables are committed", func() error {
			if step := j.newest(); step == 0 {
				return fmt.Errorf("none is")
			}
			return nil
		})
		committed := j.newest()
		if err := j.nodes["b"].kill(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-j.nodes["b"].done
		within(t, limit, "no process of b is left", func() error {
			if n := len(p.workersOf("b", "train.py")); n > 0 {
				return fmt.Errorf("%d are", n)
			}
			return nil
		})
		p.wipe("b")
		j.join("b")
		if from := j.from(2, 3); from < committed {
			t.Errorf("generation 2 goes on from pass %d, and pass %d was committed", from, committed)
		}
		j.learns("a", 4)

		begun := [2]int{j.starts("a"), j.starts("b")}
		p.must("scale", "x", "--np=2", "--detach")
		st := p.after("x", 2, 2)
		j.from(st.Generation, 2)
		j.learns("a", 4)
		j.join("d")
		p.must("scale", "x", "--np=4", "--when-ready", "--detach")
		st = p.after("x", st.Generation, 4)
		j.from(st.Generation, 4)
		j.learns("d", 2)
		if now := [2]int{j.starts("a"), j.starts("b")}; now != begun {
			t.Errorf("the servers were started %v times, %v before the number of trainers changed", now, begun)
		}
		p.must("stop", "x")
		for _, x := range j.nodes {
			p.ends(x, 93)
		}
		committed, j.servers = j.newest(), 1
		j.join("a", "b", "c")
		st = p.after("x", st.Generation, 3)
		if from := j.from(st.Generation, 3); from < committed {
			t.Errorf("one server goes on from pass %d, and two had committed pass %d", from, committed)
		}
		j.learns("a", 2)
		p.must("stop", "x")
		for _, name := range []string{"a", "b", "c"} {
			p.ends(j.nodes[name], 93)
		}
		p.clear()
	}
}
