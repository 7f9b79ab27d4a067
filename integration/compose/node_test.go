package compose

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const steps = 800 // about twenty seconds

// A machine is lost with its disk, first that of rank 0, then another one. Each
// time the survivor waits until a new machine joins. The result is that of an
// undisturbed run, and no committed step is made again.
func TestNodeKilled(t *testing.T) {
	repeat(t, func(t *testing.T) {
		c := up(t, settings{"STEPS": fmt.Sprint(steps)})
		st := c.running(1, 2)
		var saved []int
		for i, rank := range []int{0, 1} {
			g := i + 1
			saved = append(saved, c.saved(g))
			lost, survivor := st.at(rank), st.at(1-rank)
			c.kill(c.container(lost))
			c.waits(survivor, lost)
			c.scale(2)
			st = c.running(g+1, 2)
			if st.at(0) != survivor {
				t.Errorf("%s holds the checkpoint and is not rank 0: %v", survivor, st.World)
			}
		}
		got := c.ends(steps, 2, 2, 2)
		kept := 0
		for i, step := range saved {
			if kept += got.generations[i+1].steps; kept < step {
				t.Errorf("generation %d had committed step %d: %s", i+1, step, got.line)
			}
		}
	})
}

// The job is scaled up, then down. No step is lost: the steps of all generations are in the result.
func TestScale(t *testing.T) {
	repeat(t, func(t *testing.T) {
		c := up(t, settings{"STEPS": fmt.Sprint(steps)})
		st := c.trains(1, 0)
		c.unprivileged()
		first := []string{st.at(0), st.at(1)}
		c.must("scale", job, "--np=4", "--detach")
		c.reaches("waiting for two more nodes", func(s status) error {
			if s.State != "waiting" || s.WhyCode != "nodes-missing" && s.WhyCode != "saving" {
				return fmt.Errorf("not so")
			}
			return nil
		})
		c.scale(4)
		st = c.running(2, 4)
		if now := []string{st.at(0), st.at(1)}; !slices.Equal(now, first) {
			t.Errorf("ranks moved from %v to %v", first, now)
		}
		four := st.World
		c.saved(2)
		if got, want := c.must("scale", job, "--np=2"),
			"job x scaled to 2: generation 3 running\n"; got != want {
			t.Errorf("scale said %q, want %q", got, want)
		}
		st = c.running(3, 2)
		if now := []string{st.at(0), st.at(1)}; !slices.Equal(now, first) {
			t.Errorf("ranks moved from %v to %v", first, now)
		}
		// The two that are not needed stand by, and nothing restarts when they go.
		for _, w := range four {
			if slices.Contains(first, w.Node) {
				continue
			}
			c.reaches(w.Node+" standing by", func(s status) error {
				if state, _ := s.node(w.Node); state != "spare" {
					return fmt.Errorf("it is %s", state)
				}
				return nil
			})
			id := c.container(w.Node)
			c.docker("stop", "-t", "30", id)
			if status := c.docker("inspect", "-f", "{{.State.ExitCode}}", id); status != "75" {
				t.Errorf("a spare asked to leave ended with %s, want 75", status)
			}
		}
		c.ends(steps, 2, 4, 2)
	})
}

// A machine is frozen for longer than its lease, and then goes on.
func TestNodePaused(t *testing.T) {
	repeat(t, func(t *testing.T) {
		away(t, 1, func(c *cluster, id string) (back func()) {
			c.docker("pause", id)
			return func() { c.docker("unpause", id) }
		})
	})
}

// The machine of rank 0 is off the network past its lease, and on it again, at another address.
func TestNodeCutOff(t *testing.T) {
	repeat(t, func(t *testing.T) {
		away(t, 0, func(c *cluster, id string) (back func()) {
			network := c.network()
			c.docker("network", "disconnect", network, id)
			return func() { c.docker("network", "connect", network, id) }
		})
	})
}

// away makes the node of a rank vanish, and come back when another one has taken
// its place. Its worker ends, it becomes a spare, and the new generation is not
// disturbed.
func away(t *testing.T, rank int, leave func(c *cluster, id string) (back func())) {
	t.Helper()
	c := up(t, nil)
	st := c.running(1, 2)
	gone, survivor := st.at(rank), st.at(1-rank)
	_, before := st.node(gone)
	id := c.container(gone)

	back := leave(c, id)
	c.waits(survivor, gone)
	c.scale(3)
	st = c.trains(2, 0)
	world := []string{c.container(st.at(0)), c.container(st.at(1))}
	if slices.Contains(world, id) {
		t.Fatalf("the world is with the one that is away: %v", st.World)
	}
	same := c.same(world)
	stale := c.workers(id)
	if len(stale) != 1 {
		t.Errorf("the one that is away has the workers %v; it should not know of its loss yet", stale)
	}

	back()
	st = c.reaches(gone+" standing by, as another incarnation", func(s status) error {
		if state, now := s.node(gone); state != "spare" || now == before {
			return fmt.Errorf("it is %s, incarnation %s", state, now)
		}
		return same()
	})
	if left := c.workers(id); len(left) > 0 {
		t.Errorf("it stands by, and its old worker runs: %v", left)
	}
	c.trains(2, st.step())
	if err := same(); err != nil {
		t.Error(err)
	}
	if worlds := c.events("world_proposed"); len(worlds) != 2 {
		t.Errorf("%d worlds, want 2: %v", len(worlds), worlds)
	}
}

// same returns whether the workers in these containers still are those that they are now.
func (c *cluster) same(ids []string) func() error {
	c.t.Helper()
	was := c.workers(ids...)
	if len(was) != len(ids) {
		c.t.Fatalf("workers %v in %d containers", was, len(ids))
	}
	return func() error {
		if now := c.workers(ids...); !slices.Equal(now, was) {
			all := ""
			for _, id := range ids {
				all += "\n" + c.processes(id)
			}
			return fmt.Errorf("the workers were %s and are %s; all processes now:%s",
				strings.Join(was, ", "), strings.Join(now, ", "), all)
		}
		return nil
	}
}

// step is the newest that was reported.
func (s status) step() int {
	if s.Progress == nil {
		return 0
	}
	return s.Progress.Step
}
