package compose

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// calm is how long workers are watched after a fault, because a late effect is an
// error, too. It is longer than a lease and the time to register again.
const calm = 6 * time.Second

// unharmed causes a fault of the servers of a running job, and checks that no
// worker restarts and the generation stays the same. fault gets the two nodes,
// and a function that reports whether the workers are the same as before.
func unharmed(t *testing.T, c *cluster, fault func(nodes []string, same func() error)) {
	t.Helper()
	st := c.trains(1, 0)
	nodes := []string{c.container(st.at(0)), c.container(st.at(1))}
	same := c.same(nodes)
	fault(nodes, same)
	st = c.reaches("as before", func(s status) error {
		for _, id := range nodes {
			if state, _ := s.node(node(id)); s.State != "running" || s.Generation != 1 || state != "running" {
				return fmt.Errorf("not yet")
			}
		}
		return same()
	})
	endures(t, calm, "the workers go on", same)
	c.trains(1, st.step())
	if noticed := c.events("world_proposed", "node_lost", "wait_entered",
		"worker_failed"); len(noticed) != 1 {
		t.Errorf("more than the first world: %v", noticed)
	}
}

// The server is killed, and another container takes its place on the same volume.
func TestServerKilled(t *testing.T) {
	repeat(t, func(t *testing.T) {
		c := up(t, nil)
		unharmed(t, c, func(nodes []string, same func() error) {
			c.kill(c.via)
			for _, id := range nodes {
				c.says(id, "the server does not answer; workers go on")
			}
			c.scale(2)
			c.via = c.service("elasticd")[0]
			for _, id := range nodes {
				c.says(id, "the server answers again")
			}
		})
	})
}

// The server stands still for longer than any lease: when it wakes up it revokes them all.
func TestServerPaused(t *testing.T) {
	repeat(t, func(t *testing.T) {
		c := up(t, nil)
		unharmed(t, c, func(nodes []string, same func() error) {
			c.docker("pause", c.via)
			for _, id := range nodes {
				c.says(id, "the server does not answer; workers go on")
			}
			endures(t, 10*time.Second, "the workers go on without the server", same)
			c.docker("unpause", c.via)
			for _, id := range nodes {
				c.says(id, "the server answers again")
			}
		})
	})
}

// Of three servers the leader stands still, then the next one is killed.
func TestLeaderOfThree(t *testing.T) {
	repeat(t, func(t *testing.T) {
		c, servers := three(t)
		without := func(id string) []string {
			return slices.DeleteFunc(slices.Clone(servers), func(s string) bool { return s == id })
		}
		unharmed(t, c, func(_ []string, same func() error) {
			first := c.leader(servers)
			c.via = without(first)[0]
			c.docker("pause", first)
			second := c.leader(without(first)) // it was an election
			endures(t, 10*time.Second, "the workers go on with two of three", same)
			c.docker("unpause", first)
			c.ready(first)

			c.via = without(second)[0]
			c.docker("kill", "-s", "KILL", second)
			c.leader(without(second))
			c.trains(1, c.running(1, 2).step())
			c.docker("start", second)
			c.ready(second)
		})
	})
}

// leader is the server that leads these.
func (c *cluster) leader(ids []string) (leads string) {
	c.t.Helper()
	until(c.t, limit, "a server leads", func() error {
		for _, id := range ids {
			said, err := c.get(id, "metrics")
			if err != nil {
				return err
			}
			if strings.Contains(said, "\netcd_server_is_leader 1\n") {
				leads = id
				return nil
			}
		}
		return fmt.Errorf("none says so of itself")
	})
	return leads
}

// ready waits until a server takes part again.
func (c *cluster) ready(id string) {
	c.t.Helper()
	until(c.t, limit, node(id)+" is ready", func() error {
		_, err := c.get(id, "readyz")
		return err
	})
}

// get asks a server for one of its pages.
func (c *cluster) get(id, page string) (string, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("http://%s:7070/%s", c.address(id), page), nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, said)
	}
	return string(said), err
}
