package integration

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// zeroJob is a job of three nodes that saves in the form of DeepSpeed's ZeRO.
type zeroJob struct {
	shardedJob
	finish, hold string
}

func newZeroJob(t *testing.T, load string) *zeroJob {
	p := newSandbox(t)
	script, err := filepath.Abs("testdata/zero.py")
	if err != nil {
		t.Fatal(err)
	}
	j := &zeroJob{finish: p.path("finish"), hold: p.path("hold")}
	j.shardedJob = shardedJob{sandbox: p, flags: []string{"--load=" + load}, nodes: map[string]*proc{},
		program: []string{"/usr/bin/python3", script, j.finish, j.hold, "100000"}}
	return j
}

var hasShards = regexp.MustCompile(`(?m)^generation (\d+) rank (\d+): shards (.*)$`)

// shards returns the shards that each rank of a generation finds in its directory.
func (j *zeroJob) shards(g int) map[string]string {
	found := map[string]string{}
	for _, m := range hasShards.FindAllStringSubmatch(j.logs("log-*"), -1) {
		if m[1] == strconv.Itoa(g) {
			found[m[2]] = m[3]
		}
	}
	return found
}

var holdsAt = regexp.MustCompile(`(?m)^rank \d+ holds at step (\d+)$`)

// holds stops the ranks between two saves, and waits until nothing more is committed: where rank 0 alone writes
// "latest", the others' last saves count when the next begins. Then the save before is the newest, or an older one
// if a node was too slow to take each; that the last has no part of a node is then said after a while.
func (j *zeroJob) holds(ranks int) {
	j.t.Helper()
	j.touch("hold")
	until(j.t, "the save before the last is committed", func() error {
		found := holdsAt.FindAllStringSubmatch(j.logs("log-*"), -1)
		if len(found) < ranks {
			return fmt.Errorf("%d of %d ranks stand", len(found), ranks)
		}
		last := math.MaxInt
		for _, m := range found {
			step, err := strconv.Atoi(m[1])
			if err != nil {
				return err
			}
			last = min(last, step)
		}
		newest := j.newest()
		if newest != last-10 && len(kinds(j.events("x"), "checkpoint_refused")) == 0 {
			return fmt.Errorf("step %d is committed, and all have saved step %d", newest, last)
		}
		return nil
	})
}

// replace kills the node of a rank with its disk, and starts another one.
func (j *zeroJob) replace(st status, rank int) status {
	j.t.Helper()
	lost := st.World[rank].Node
	x := j.nodes[lost]
	if err := x.kill(syscall.SIGKILL); err != nil {
		j.t.Fatal(err)
	}
	<-x.done
	delete(j.nodes, lost)
	j.wipe(lost)
	j.join(3)
	return j.after("x", st.Generation, 3)
}

// Each node loads only its own shards, so a node that replaces a lost one gets the shards of its
// rank and no others. While workers train and save nothing, all parts get two copies again, so
// another node may be lost. If a part cannot be loaded alone, or the size of the world changes,
// each node loads all parts, and reports the reason once.
func TestEachNodeLoadsItsOwnShards(t *testing.T) {
	t.Parallel()
	j := newZeroJob(t, "own")
	j.join(3)
	st := j.running("x", 1, 3)
	j.commitsOf("x", 1, 2)
	j.holds(3)
	var saved int
	for _, rank := range []int{2, 1} {
		until(t, "each part of the newest checkpoint has two copies", func() error {
			k, _ := j.object("status", "x", "-o", "json")["checkpoint"].(map[string]any)
			if k["copies"] != 2.0 {
				return fmt.Errorf("it is %v", k)
			}
			return nil
		})
		saved = j.newest()
		st = j.replace(st, rank)
		if step := j.from(st.Generation, 3); step != saved {
			t.Errorf("generation %d goes on from step %d, and step %d was committed", st.Generation, step, saved)
		}
		for of, shards := range j.shards(st.Generation) {
			// Both nodes that the part of rank 1 was on at the commit are lost with the second one.
			if rank == 2 && shards != "["+of+"]" || rank == 1 && shards != "[0, 1, 2]" {
				t.Errorf("rank %s of generation %d has the shards %s", of, st.Generation, shards)
			}
		}
	}
	j.must("scale", "x", "--np=2", "--detach")
	st = j.after("x", st.Generation, 2)
	if step := j.from(st.Generation, 2); step < saved {
		t.Errorf("with two nodes it goes on from step %d, and step %d was committed", step, saved)
	}
	for of, shards := range j.shards(st.Generation) {
		if shards != "[0, 1, 2]" {
			t.Errorf("rank %s of two has the shards %s", of, shards)
		}
	}
	for _, seat := range st.World {
		const why = "--load=own: this node loads all of the checkpoint: no node that had a part of it at " +
			"the commit answers for that part"
		if n := strings.Count(j.nodes[seat.Node].stderr(), why); n != 1 {
			t.Errorf("node %s says it %d times:\n%s", seat.Node, n, j.nodes[seat.Node].stderr())
		}
	}
	j.finished()
}

// finished lets the job go on to its end.
func (j *zeroJob) finished() {
	j.t.Helper()
	if err := os.WriteFile(j.finish, nil, 0o600); err != nil {
		j.t.Fatal(err)
	}
	if err := os.Remove(j.hold); err != nil && !errors.Is(err, os.ErrNotExist) {
		j.t.Fatal(err)
	}
	for _, seat := range j.state("x", "done").World {
		j.ends(j.nodes[seat.Node], 0)
	}
	if logs := j.logs("log-*"); strings.Contains(logs, "MIXED") || strings.Contains(logs, "MISSING") {
		j.t.Errorf("a checkpoint was loaded that is not whole:\n%s", logs)
	}
}

// The same job runs with the other values of --load.
func TestLoadModesOfShards(t *testing.T) {
	t.Parallel()
	for load, want := range map[string]map[string]string{
		"all":   {"0": "[0, 1, 2]", "1": "[0, 1, 2]", "2": "[0, 1, 2]"},
		"rank0": {"0": "[0, 1, 2]"},
	} {
		t.Run(load, func(t *testing.T) {
			j := newZeroJob(t, load)
			j.join(3)
			st := j.running("x", 1, 3)
			j.commitsOf("x", 1, 2)
			st = j.replace(st, 2)
			j.from(st.Generation, 3)
			if got := fmt.Sprint(j.shards(st.Generation)); got != fmt.Sprint(want) {
				t.Errorf("the ranks have the shards %s", got)
			}
			j.finished()
		})
	}
}
