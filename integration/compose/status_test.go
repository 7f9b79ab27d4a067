package compose

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/integration/outside"
)

// status is what these tests read of `elastic status -o json`.
type status struct {
	State, Why string
	WhyCode    string `json:"why_code"`
	Generation int
	WorldSize  int `json:"world_size"`
	Nodes      []struct{ Node, State, Incarnation string }
	World      []struct {
		NodeRank int `json:"node_rank"`
		Node     string
	}
	Progress   *struct{ Step int }
	Checkpoint *struct {
		Generation, Step int
		Holders          []string
	}
}

func (s status) String() string {
	var nodes []string
	for _, n := range s.Nodes {
		nodes = append(nodes, n.Node+" "+n.State)
	}
	step := "no step reported"
	if s.Progress != nil {
		step = fmt.Sprint("step ", s.Progress.Step)
	}
	return fmt.Sprintf("%s, generation %d, world size %d, %s: %s (%s)",
		s.State, s.Generation, s.WorldSize, step, s.Why, strings.Join(nodes, ", "))
}

// node is state and incarnation of a node, empty if it is not listed.
func (s status) node(name string) (state, incarnation string) {
	for _, n := range s.Nodes {
		if n.Node == name {
			return n.State, n.Incarnation
		}
	}
	return "", ""
}

// at is the node of a rank.
func (s status) at(rank int) string {
	for _, w := range s.World {
		if w.NodeRank == rank {
			return w.Node
		}
	}
	return ""
}

// event is what they read of a line of `elastic events -o json`.
type event struct {
	Kind, Text string
	Generation int
}

// events are those of some kinds, oldest first.
func (c *cluster) events(kinds ...string) (all []event) {
	c.t.Helper()
	for line := range strings.Lines(c.must("events", job, "-o", "json")) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			c.t.Fatalf("%v: %s", err, line)
		}
		if slices.Contains(kinds, e.Kind) {
			all = append(all, e)
		}
	}
	return all
}

// limit is what a wait may take: far beyond what it takes, on a machine that
// does other things too.
const limit = time.Minute

// until waits for a state in containers, which can only be asked for again and
// again, and fails with the last reason why it is not there.
func until(t *testing.T, limit time.Duration, what string, f func() error) {
	t.Helper()
	outside.Poll{What: what, Every: 200 * time.Millisecond, Limit: limit}.Until(t, f)
}

// endures holds a state for d: it fails as soon as f does.
func endures(t *testing.T, d time.Duration, what string, f func() error) {
	t.Helper()
	outside.Poll{What: what, Every: 500 * time.Millisecond, Limit: d}.Holds(t, f)
}

// reaches waits for a status for which is returns nil, and returns it.
func (c *cluster) reaches(what string, is func(status) error) (st status) {
	c.t.Helper()
	until(c.t, limit, "job "+job+": "+what, func() error {
		out, err := c.elastic(c.t.Context(), "status", job, "-o", "json")
		if err != nil {
			return err
		}
		st = status{}
		if err := json.Unmarshal([]byte(out), &st); err != nil {
			return err
		}
		if err := is(st); err != nil {
			return fmt.Errorf("%w; it is %s", err, st)
		}
		return nil
	})
	return st
}

// running waits until generation g runs with n workers.
func (c *cluster) running(g, n int) status {
	c.t.Helper()
	return c.reaches(fmt.Sprintf("generation %d running with %d workers", g, n), func(s status) error {
		if s.State != "running" || s.Generation != g || s.WorldSize != n || len(s.World) != n {
			return fmt.Errorf("not so")
		}
		return nil
	})
}

// trains waits until generation g reported a later step than this.
func (c *cluster) trains(g, step int) status {
	c.t.Helper()
	return c.reaches(fmt.Sprintf("generation %d training beyond step %d", g, step), func(s status) error {
		if s.State != "running" || s.Generation != g || s.Progress == nil || s.Progress.Step <= step {
			return fmt.Errorf("not so")
		}
		return nil
	})
}

// saved waits until generation g committed a checkpoint that two nodes hold, and returns its step.
func (c *cluster) saved(g int) int {
	c.t.Helper()
	return c.reaches(fmt.Sprintf("a checkpoint of generation %d on two nodes", g), func(s status) error {
		if k := s.Checkpoint; k == nil || k.Generation != g || k.Step < 1 || len(k.Holders) < 2 {
			return fmt.Errorf("the newest is %+v", k)
		}
		return nil
	}).Checkpoint.Step
}

// waits waits until the survivor holds, for the one that was lost, and says so
// in status and on its terminal.
func (c *cluster) waits(survivor, lost string) {
	c.t.Helper()
	c.reaches("the survivor waiting", func(s status) error {
		left, _ := s.node(survivor)
		gone, _ := s.node(lost)
		switch {
		case s.State != "waiting" || s.WhyCode != "nodes-missing" || left != "waiting" || gone != "lost":
			return fmt.Errorf("not yet")
		case !strings.HasPrefix(s.Why, "waiting for 1 more node") ||
			!strings.Contains(s.Why, lost+" was lost"):
			return fmt.Errorf("why does not name the node that is waited for")
		}
		return nil
	})
	id := c.container(survivor)
	c.says(id, "wait: "+lost+" was lost")
	if left := c.workers(id); len(left) > 0 {
		c.t.Errorf("the survivor waits, and its worker runs: %v", left)
	}
}

// says waits for a text in what a container prints.
func (c *cluster) says(id, text string) {
	c.t.Helper()
	until(c.t, limit, fmt.Sprintf("%s says %q", node(id), text), func() error {
		said, err := c.logs(c.t.Context(), id)
		if err != nil {
			return err
		}
		if !strings.Contains(said, text) {
			lines := strings.Split(strings.TrimSpace(said), "\n")
			return fmt.Errorf("it said last: %s", lines[len(lines)-1])
		}
		return nil
	})
}
