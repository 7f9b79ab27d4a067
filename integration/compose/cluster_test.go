package compose

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// job is the one that the nodes of every cluster run.
const job = "x"

// project is what the names of this run's projects begin with. TestMain made it.
var project string

// cluster is one compose project. It ends with its test, which then logs its
// story if it failed.
type cluster struct {
	t    *testing.T
	name string
	env  []string
	// Where `elastic` asks, and in which container it runs: one that no fault hits now.
	servers, via string
	// Containers by the node in them; compose takes seconds to list them.
	known map[string]string
	// Of what was killed and removed, the last words.
	buried []string
}

// settings are variables of docker-compose.yml.
type settings map[string]string

// up brings up two nodes and elasticd; files are added to docker-compose.yml.
func up(t *testing.T, s settings, files ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, name: project + strconv.FormatInt(time.Now().UnixNano(), 36),
		known: map[string]string{}}
	var paths []string
	for _, f := range append([]string{"docker-compose.yml"}, files...) {
		path, err := filepath.Abs(filepath.Join("..", "..", f))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	all := settings{"COMPOSE_PROJECT_NAME": c.name,
		"COMPOSE_FILE": strings.Join(paths, string(os.PathListSeparator)), "COMPOSE_PROFILES": "",
		"ELASTIC_IMAGE": image, "JOB": job, "NP": "2", "SERVERS": "", "BATCH": "256", "LR": "0.1",
		"SCALING": "fixed-batch",
		"STEPS":   "1000000", "STEP_SLEEP": "20ms", "SAVE_EVERY": "500ms"}
	maps.Copy(all, s)
	c.env = os.Environ()
	for k, v := range all {
		c.env = append(c.env, k+"="+v)
	}
	t.Cleanup(c.down)
	c.scale(2)
	c.via = c.service("elasticd")[0]
	c.servers = "elasticd:2379"
	return c
}

// three brings up two nodes and three elasticd.
func three(t *testing.T) (c *cluster, servers []string) {
	t.Helper()
	c = up(t, nil, "docker-compose.ha.yml")
	c.servers = "elasticd:2379,elasticd2:2379,elasticd3:2379"
	for _, name := range []string{"elasticd", "elasticd2", "elasticd3"} {
		servers = append(servers, c.service(name)...)
	}
	return c, servers
}

// down removes every container, network and volume of the project.
func (c *cluster) down() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // the test's own is over
	defer cancel()
	if c.t.Failed() {
		c.logStory(ctx)
	}
	if _, err := c.compose(ctx, "down", "-v", "--remove-orphans", "-t", "0"); err != nil {
		c.t.Error(err)
	}
	for _, kind := range [][]string{{"ps", "-a"}, {"network", "ls"}, {"volume", "ls"}} {
		left, err := output(ctx, nil, "docker",
			append(kind, "-q", "--filter", "label=com.docker.compose.project="+c.name)...)
		if err != nil || left != "" {
			c.t.Errorf("left behind by down -v, of docker %s: %v %s", kind[0], err, left)
		}
	}
}

// logStory logs where the job stood, what happened, and what each container said.
func (c *cluster) logStory(ctx context.Context) {
	_, _ = output(ctx, nil, "docker", "unpause", c.via) // a paused container answers no command
	out, err := c.elastic(ctx, "status", job)
	c.t.Logf("== elastic status (%v)\n%s", err, out)
	out, err = c.elastic(ctx, "events", job, "-o", "json")
	saves := regexp.MustCompile(`(?m)^.*"kind":"checkpoint_.*\n`) // hundreds
	c.t.Logf("== elastic events (%v)\n%s", err, tail(saves.ReplaceAllString(out, "")))
	for _, last := range c.buried {
		c.t.Log(last)
	}
	ids, err := output(ctx, nil, "docker", "ps", "-aq", "--no-trunc", "--filter",
		"label=com.docker.compose.project="+c.name)
	if err != nil {
		c.t.Log(err)
	}
	for _, id := range strings.Fields(ids) {
		c.t.Log(c.words(ctx, id))
	}
}

// words are what a container is and what it said.
func (c *cluster) words(ctx context.Context, id string) string {
	what, _ := output(ctx, nil, "docker", "inspect", "-f",
		"{{.Name}} {{.State.Status}}, exit status {{.State.ExitCode}}", id)
	said, err := c.logs(ctx, id, "-t")
	if err != nil {
		said += err.Error()
	}
	return fmt.Sprintf("== %s %s%s", node(id), what, tail(said))
}

// logs are stdout and stderr of a container.
func (c *cluster) logs(ctx context.Context, id string, flags ...string) (string, error) {
	return output(ctx, nil, "sh",
		append([]string{"-c", `exec docker logs "$@" 2>&1`, "docker", id}, flags...)...)
}

func (c *cluster) compose(ctx context.Context, args ...string) (string, error) {
	return output(ctx, c.env, compose[0], append(slices.Clone(compose[1:]), args...)...)
}

// docker runs a docker command that has to succeed.
func (c *cluster) docker(args ...string) string {
	c.t.Helper()
	out, err := output(c.t.Context(), nil, "docker", args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// service are the containers of a service.
func (c *cluster) service(name string) []string {
	c.t.Helper()
	out, err := c.compose(c.t.Context(), "ps", "-q", name)
	if err != nil {
		c.t.Fatal(err)
	}
	ids := strings.Fields(out)
	if len(ids) == 0 {
		c.t.Fatalf("docker-compose ps -q %s: no container", name)
	}
	return ids
}

// scale has compose start what is missing for n nodes, and touch nothing else.
func (c *cluster) scale(n int) {
	c.t.Helper()
	if _, err := c.compose(c.t.Context(), "up", "-d", "--no-build", "--no-recreate", "--scale",
		fmt.Sprint("node=", n)); err != nil {
		c.t.Fatal(err)
	}
}

// node is the name of the node in a container: its host name.
func node(id string) string { return id[:12] }

// container is the one of a node.
func (c *cluster) container(name string) string {
	c.t.Helper()
	if c.known[name] == "" {
		for _, id := range c.service("node") {
			c.known[node(id)] = id
		}
	}
	if c.known[name] == "" {
		c.t.Fatalf("no container of node %s: %v", name, c.known)
	}
	return c.known[name]
}

// kill is the loss of a machine: nothing of the container is asked, and nothing of it comes back.
func (c *cluster) kill(id string) {
	c.t.Helper()
	c.docker("kill", "-s", "KILL", id)
	c.buried = append(c.buried, c.words(c.t.Context(), id))
	c.docker("rm", "-fv", id)
}

// elastic runs a command of ours in the container through which we ask.
func (c *cluster) elastic(ctx context.Context, args ...string) (string, error) {
	return output(ctx, nil, "docker", append([]string{"exec", "-e", "ELASTIC_SERVER=" + c.servers, c.via,
		"/usr/local/bin/elastic"}, args...)...)
}

// must runs a command of ours that has to succeed.
func (c *cluster) must(args ...string) string {
	c.t.Helper()
	out, err := c.elastic(c.t.Context(), args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// workers are the processes that train in these containers, by their numbers on this machine.
func (c *cluster) workers(ids ...string) []string {
	c.t.Helper()
	var all []string
	for _, id := range ids {
		for line := range strings.Lines(c.processes(id)) {
			if f := strings.Fields(line); len(f) > 1 && f[1] == "/usr/local/bin/elastic-demo" {
				all = append(all, f[0])
			}
		}
	}
	return all
}

// processes are all of a container, with their numbers on this machine.
func (c *cluster) processes(id string) string {
	c.t.Helper()
	return c.docker("top", id, "-eo", "pid,args")
}

// address is where this machine reaches a container.
func (c *cluster) address(id string) string {
	c.t.Helper()
	return c.docker("inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", id)
}

// network is the only one of the project.
func (c *cluster) network() string {
	c.t.Helper()
	return c.docker("network", "ls", "-q", "--filter", "label=com.docker.compose.project="+c.name)
}

// unprivileged holds every process of every container to what the compose file says: a user of its
// own, no capability, no way to more, and a root that cannot be written to.
func (c *cluster) unprivileged() {
	c.t.Helper()
	for _, id := range append(c.service("node"), c.service("elasticd")...) {
		if c.docker("inspect", "-f", "{{.HostConfig.ReadonlyRootfs}}", id) != "true" {
			c.t.Errorf("the root of container %s can be written to", id)
		}
		for i, line := range strings.Split(c.processes(id), "\n") {
			if i == 0 {
				continue // the heading
			}
			pid := strings.Fields(line)[0]
			b, err := os.ReadFile("/proc/" + pid + "/status")
			if err != nil {
				c.t.Fatal(err)
			}
			for _, want := range []string{"Uid:\t65532\t65532\t65532\t65532\n", "CapEff:\t0000000000000000\n",
				"CapBnd:\t0000000000000000\n", "NoNewPrivs:\t1\n"} {
				if !strings.Contains(string(b), "\n"+want) {
					c.t.Errorf("%s has not %q:\n%s", line, want, b)
				}
			}
		}
	}
}
