package roles_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/pkg/roles"
)

// placed is a placement in short: one line for each node.
func placed(nodes [][]roles.Task) (lines []string) {
	for _, tasks := range nodes {
		var words []string
		for _, t := range tasks {
			words = append(words, fmt.Sprintf("%s=%d@%s", t.Log(), t.Index, t.At))
		}
		lines = append(lines, strings.ReplaceAll(strings.Join(words, " "), "@ ", " "))
	}
	return lines
}

func anywhere(n int) []string { return make([]string, n) }

func TestPlace(t *testing.T) {
	t.Parallel()
	two := []string{"10.0.0.1", "10.0.0.2"}
	for name, c := range map[string]struct {
		spec  roles.Spec
		size  roles.Size
		want  []string
		ranks [][]int
		most  int
	}{
		"one machine": {roles.Spec{Mode: roles.PS, Servers: anywhere(1), Trainers: anywhere(2)},
			roles.Size{Nodes: 1}, []string{"workerlog.0=0 workerlog.1=1 serverlog.0=0@"}, [][]int{{0, 1}}, 2},
		"two servers, three trainers, two nodes": {
			roles.Spec{Mode: roles.PS, Servers: anywhere(2), Trainers: anywhere(3)}, roles.Size{Nodes: 2},
			[]string{"workerlog.0=0 workerlog.1=1 serverlog.0=0@", "workerlog.0=2 serverlog.0=1@"},
			[][]int{{0, 1}, {2}}, 2},
		"trainers by slots": {roles.Spec{Mode: roles.PS, Servers: anywhere(2)},
			roles.Size{Nodes: 3, Slots: 2},
			[]string{"workerlog.0=0 workerlog.1=1 serverlog.0=0@",
				"workerlog.0=2 workerlog.1=3 serverlog.0=1@", "workerlog.0=4 workerlog.1=5@"}, nil, 2},
		"fewer trainers than nodes": {roles.Spec{Mode: roles.PS, Servers: anywhere(4), Trainers: anywhere(1)},
			roles.Size{Nodes: 3},
			[]string{"workerlog.0=0 serverlog.0=0 serverlog.1=1@", "serverlog.0=2@", "serverlog.0=3@"},
			[][]int{{0}, {}, {}}, 1},
		"by addresses": {roles.Spec{Mode: roles.PS, Servers: []string{"10.0.0.1:6170", "10.0.0.2:6170"},
			Trainers: []string{"10.0.0.1:6171", "10.0.0.2:6171", "10.0.0.1:6172", "10.0.0.2"}},
			roles.Size{Nodes: 2, Hosts: two},
			[]string{"workerlog.0=0@10.0.0.1:6171 workerlog.1=2@10.0.0.1:6172 serverlog.0=0@10.0.0.1:6170",
				"workerlog.0=1@10.0.0.2:6171 workerlog.1=3@10.0.0.2 serverlog.0=1@10.0.0.2:6170"},
			[][]int{{0, 2}, {1, 3}}, 2},
		"heter workers in stages": {
			roles.Spec{Mode: roles.PSHeter, Servers: anywhere(1), Trainers: anywhere(2),
				Heter: [][]string{anywhere(2), anywhere(1)}}, roles.Size{Nodes: 2},
			[]string{"workerlog.0=0 heterlog.0=0 heterlog.1=2 serverlog.0=0@",
				"workerlog.0=1 heterlog.0=1@"}, [][]int{{0}, {1}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.spec.Validate(); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, placed(c.spec.Place(c.size))); d != "" {
				t.Errorf("placed (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.ranks, c.spec.Ranks(c.size)); d != "" {
				t.Errorf("ranks (-want +got):\n%s", d)
			}
			if got := c.spec.Most(c.size); got != c.most {
				t.Errorf("%d trainers at most on a node, want %d", got, c.most)
			}
		})
	}
}

// A node that is added or taken away moves no server of the nodes that stay.
func TestServersStayWhereTheyAre(t *testing.T) {
	t.Parallel()
	spec := roles.Spec{Mode: roles.PS, Servers: anywhere(2)}
	servers := func(nodes int) (at []string) {
		for rank, tasks := range spec.Place(roles.Size{Nodes: nodes, Slots: 1}) {
			for _, k := range tasks {
				if k.Role == roles.Server {
					at = append(at, fmt.Sprintf("%s on %d", k, rank))
				}
			}
		}
		return at
	}
	for nodes := 3; nodes < 6; nodes++ {
		if d := cmp.Diff(servers(2), servers(nodes)); d != "" {
			t.Errorf("with %d nodes (-2 nodes +got):\n%s", nodes, d)
		}
	}
}

func TestTeam(t *testing.T) {
	t.Parallel()
	spec := roles.Spec{Mode: roles.PSHeter, Servers: []string{"10.0.0.2:6170"},
		Trainers: []string{"10.0.0.1"}, Heter: [][]string{{"10.0.0.2"}, {"10.0.0.1:7000"}}}
	size := roles.Size{Nodes: 2, Hosts: spec.Hosts()}
	ports := []string{"10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3", "10.0.0.2:4", "10.0.0.2:5", "10.0.0.2:6"}
	if n := spec.Ports(size, 0) + spec.Ports(size, 1); n != len(ports) {
		t.Fatalf("%d ports are asked for, want %d", n, len(ports))
	}
	team, err := roles.NewTeam(&spec, size, ports)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{"trainers": team.All(roles.Trainer), "servers": team.All(roles.Server),
		"stage 1": team.Stage(1), "stage 2": team.Stage(2), "stage 3": team.Stage(3),
		"stage 4": team.Stage(4),
		"gloo":    {team.HTTP}}
	want := map[string][]string{"trainers": {"10.0.0.1:1"}, "servers": {"10.0.0.2:6170"},
		"stage 1": {"10.0.0.1:1"},
		"stage 2": {"10.0.0.2:4"}, "stage 3": {"10.0.0.1:7000"}, "stage 4": nil, "gloo": {"10.0.0.2:6"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("endpoints (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"10.0.0.2:5"}, team.Found(roles.Server)); d != "" {
		t.Errorf("the server's port as its node found it (-want +got):\n%s", d)
	}
	spec.HTTPPort = 8900
	if team, err = roles.NewTeam(&spec, size, ports); err != nil || team.HTTP != "10.0.0.2:8900" {
		t.Errorf("gloo's rendezvous is at %v, %v", team, err)
	}
	if _, err := roles.NewTeam(&spec, size, ports[1:]); err == nil {
		t.Error("a port is missing, and the team is made")
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]roles.Spec{
		"run mode":               {Mode: "gpu"},
		"without a server":       {Mode: roles.PS, Trainers: anywhere(1)},
		"without a heter worker": {Mode: roles.PSHeter, Servers: anywhere(1)},
		"with heter workers":     {Mode: roles.PS, Servers: anywhere(1), Heter: [][]string{anywhere(1)}},
		"is there twice":         {Mode: roles.PS, Servers: []string{"a:1", "a:1"}},
		"has no port":            {Mode: roles.PS, Servers: []string{"a:x"}},
		"http_port":              {Mode: roles.PS, Servers: anywhere(1), HTTPPort: 1 << 17},
		"devices for": {Mode: roles.PS, Servers: anywhere(1),
			HeterDevices: []string{"cpu", "gpu"}},
	} {
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
}
