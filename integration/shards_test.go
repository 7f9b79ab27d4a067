package integration

import (
	"encoding/json"
	"errors"
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

// shardedJob is a job in which each node saves a part of the state on its own disk.
type shardedJob struct {
	*sandbox
	program []string
	flags   []string
	nodes   map[string]*proc
	made    int
}

// newShardedJob starts a job of testdata/shards.py. It finishes when the file finish exists.
func newShardedJob(t *testing.T, flags []string, args ...string) (j *shardedJob, finish string) {
	t.Helper()
	script, err := filepath.Abs("testdata/shards.py")
	if err != nil {
		t.Fatal(err)
	}
	p := newSandbox(t)
	finish = p.path("finish")
	return &shardedJob{sandbox: p, program: append([]string{"/usr/bin/python3", script, finish}, args...),
		flags: append([]string{"--save-from=all"}, flags...), nodes: map[string]*proc{}}, finish
}

// join starts nodes until there are n.
func (j *shardedJob) join(n int) {
	for len(j.nodes) < n {
		j.made++
		name := fmt.Sprintf("n%d", j.made)
		args := append([]string{"--node=" + name, "--np=3", "--job_id=x", "--max-restarts=100000",
			"--log-dir=log-" + name}, j.flags...)
		j.nodes[name] = j.run(append(args, j.program...)...)
	}
}

var goesOn = regexp.MustCompile(`(?m)^generation (\d+) rank (\d+) of (\d+): from step (\d+)$`)

// from waits until every rank of a generation has printed from which step it goes on. It must be
// the same step for all.
func (j *shardedJob) from(g, size int) (step int) {
	j.t.Helper()
	until(j.t, fmt.Sprintf("all %d ranks of generation %d say what they loaded", size, g), func() error {
		ranks, steps := map[string]bool{}, map[string]bool{}
		for _, m := range goesOn.FindAllStringSubmatch(j.logs("log-*"), -1) {
			if m[1] == strconv.Itoa(g) && m[3] == strconv.Itoa(size) {
				ranks[m[2]], steps[m[4]] = true, true
				step, _ = strconv.Atoi(m[4])
			}
		}
		if len(steps) > 1 {
			j.t.Fatalf("generation %d goes on from different steps: %v", g, steps)
		}
		if len(ranks) < size {
			return fmt.Errorf("%d do", len(ranks))
		}
		return nil
	})
	return step
}

// newest returns the step of the newest commit.
func (j *shardedJob) newest() (step int) {
	j.t.Helper()
	for _, e := range kinds(j.events("x"), "checkpoint_committed") {
		step = e.Step
	}
	return step
}

// lose kills a node with its disk at a random time, and lets the job go on with a given size. The
// job must not go on from an older step than that of the newest commit.
func (j *shardedJob) lose(st status, size int) status {
	j.t.Helper()
	j.commitsOf("x", st.Generation, 2)
	anyTime(time.Second)
	lost := st.World[rand.IntN(len(st.World))].Node
	newest := j.newest()
	x := j.nodes[lost]
	if err := x.kill(syscall.SIGKILL); err != nil {
		j.t.Fatal(err)
	}
	<-x.done
	delete(j.nodes, lost)
	until(j.t, "the worker of "+lost+" is gone", func() error {
		if n := len(j.workersOf(lost, j.program[1])); n > 0 {
			return fmt.Errorf("%d are there", n)
		}
		return nil
	})
	j.wipe(lost)
	if len(st.World) != size {
		j.must("scale", "x", fmt.Sprintf("--np=%d", size), "--detach")
	}
	j.join(size)
	st = j.after("x", st.Generation, size)
	if step := j.from(st.Generation, size); step < newest {
		j.t.Errorf("generation %d goes on from step %d, and step %d was committed", st.Generation, step, newest)
	}
	return st
}

// disturbed kills one node with its disk for each size, and then lets the job finish.
func (j *shardedJob) disturbed(sizes []int, finish string) {
	j.t.Helper()
	j.join(3)
	st := j.running("x", 1, 3)
	for _, size := range sizes {
		st = j.lose(st, size)
	}
	j.commitsOf("x", st.Generation, 1)
	if err := os.WriteFile(finish, nil, 0o600); err != nil {
		j.t.Fatal(err)
	}
	j.trainsToItsEnd()
	for _, x := range j.nodes {
		j.ends(x, 0)
	}
	if logs := j.logs("log-*"); strings.Contains(logs, "MIXED") {
		j.t.Errorf("a checkpoint was loaded that is not of one save:\n%s", logs)
	}
}

// trainsToItsEnd waits until a node ends. It waits as long as the job commits.
func (j *shardedJob) trainsToItsEnd() {
	j.t.Helper()
	for step, over := -1, false; !over; {
		until(j.t, fmt.Sprintf("a node ends, or a step after %d is committed", step), func() error {
			newest := j.newest()
			for _, x := range j.nodes {
				_, ended := x.ended()
				over = over || ended
			}
			if !over && newest <= step {
				return errors.New("neither")
			}
			step = newest
			return nil
		})
	}
}

// sizesOf returns the sizes with which a job goes on, one for each lost node.
func sizesOf(rounds int) (sizes []int) {
	for i := range rounds {
		sizes = append(sizes, []int{3, 2, 4}[i%3])
	}
	return sizes
}

// Each rank saves a shard on the disk of its node. Nodes are killed with their disks. The others go
// on from the newest committed checkpoint, which is complete, also with another size.
func TestShardsOnDisksOfTheirOwn(t *testing.T) {
	t.Parallel()
	j, finish := newShardedJob(t, nil, "0.02")
	sizes := []int{2}
	if n := soak(t); n > 1 {
		sizes = sizesOf(n)
	}
	j.disturbed(sizes, finish)
}

// kept returns the size of the chunks on the disk of a node.
func (p *sandbox) kept(node string) (n int64) {
	p.t.Helper()
	chunks, err := filepath.Glob(filepath.Join(p.dir, "state", "elastic", "*", "nodes", node, "jobs", "*",
		"store", "chunks", "*"))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, c := range chunks {
		if fi, err := os.Stat(c); err == nil { // else it was removed right now
			n += fi.Size()
		}
	}
	return n
}

// Copies of shards are placed in a ring: no node has all, and all have about the same size. If a
// node is lost with its disk, no checkpoint is lost.
func TestShardsGoAroundInARing(t *testing.T) {
	t.Parallel()
	const shard = 400_000
	j, finish := newShardedJob(t, []string{"--keep=2"}, "0.1", strconv.Itoa(shard))
	j.join(3)
	st := j.running("x", 1, 3)
	j.commitsOf("x", 1, 4)
	until(t, "three nodes have as many bytes", func() error {
		var sizes []int64
		for node := range j.nodes {
			sizes = append(sizes, j.kept(node))
		}
		// A node has two to four saves of two shards each. All shards would be half as much again.
		least, most := slices.Min(sizes), slices.Max(sizes)
		if least < 4*shard || most > 8*shard || most > least+2*shard {
			return fmt.Errorf("they have %d", sizes)
		}
		t.Logf("bytes of each node: %d", sizes)
		return nil
	})
	var all []struct {
		Copies, Parts int
	}
	if err := json.Unmarshal([]byte(j.must("ckpt", "ls", "x", "-o", "json")), &all); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.Copies != 2 || c.Parts != 3 {
			t.Errorf("%d copies of %d parts", c.Copies, c.Parts)
		}
	}
	st = j.lose(st, 3)
	j.lose(st, 2)
	if err := os.WriteFile(finish, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range j.nodes {
		j.ends(x, 0)
	}
	j.must("ckpt", "get", "x", j.path("got"))
	if logs := j.logs("log-*"); strings.Contains(logs, "MIXED") {
		t.Errorf("a checkpoint was loaded that is not of one save:\n%s", logs)
	}
}
