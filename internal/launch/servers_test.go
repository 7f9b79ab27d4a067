package launch_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/internal/launch"
	"github.com/elasticd/elastic/pkg/roles"
)

// taskInputs is the node of a rank in a job with roles; ports are the found ones of all nodes.
func taskInputs(t *testing.T, s *roles.Spec, size roles.Size, rank int, ports ...string) launch.Inputs {
	t.Helper()
	team, err := roles.NewTeam(s, size, ports)
	if err != nil {
		t.Fatal(err)
	}
	return launch.Inputs{Job: "x", Generation: 3, Node: "b", NodeRank: rank, Nodes: size.Nodes, Team: team,
		Tasks: team.Nodes[rank], Workers: len(team.Nodes[rank]), WorldSize: len(team.All(roles.Trainer)),
		CheckpointDir: "/ckpt", RunDir: "/run", LRScale: 1, Role: launch.ParameterServers()}
}

// paddles are the variables that a worker is given, without those of this project.
func paddles(env []string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		return strings.HasPrefix(kv, "ELASTIC_") || strings.HasPrefix(kv, "PYTHON") ||
			strings.HasPrefix(kv, "OMP_")
	})
	slices.Sort(env)
	return env
}

// The environment of a server and of a trainer is that of Paddle's quick start: one server and two
// trainers on one machine.
func TestEnvironmentOfServersAndTrainers(t *testing.T) {
	t.Parallel()
	spec := roles.Spec{Mode: roles.PS, Servers: make([]string, 1), Trainers: make([]string, 2)}
	in := taskInputs(t, &spec, roles.Size{Nodes: 1}, 0, "127.0.0.1:18913", "127.0.0.1:10025",
		"127.0.0.1:34008", "127.0.0.1:23053")
	in.DeviceIDs = []string{"0", "1"}
	given := launch.Given(in)
	common := `PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:34008
		PADDLE_TRAINER_ENDPOINTS=127.0.0.1:18913,127.0.0.1:10025
		PADDLE_HETER_TRAINER_IP_PORT_LIST= PADDLE_COORDINATOR_ENDPOINTS= PADDLE_TRAINERS_NUM=2 PADDLE_WITH_GLOO=0
		PADDLE_GLOO_RENDEZVOUS=3 PADDLE_GLOO_FS_PATH=/run/3/gloo PADDLE_GLOO_HTTP_ENDPOINT=127.0.0.1:23053
		POD_IP=127.0.0.1 POD_NAME=b PADDLE_NNODES=1 `
	for local, own := range []string{
		`TRAINING_ROLE=TRAINER PADDLE_ROLE=TRAINER PADDLE_TRAINER_ID=0 PADDLE_PORT=18913 CUDA_VISIBLE_DEVICES=0
			XPU_VISIBLE_DEVICES=0 FLAGS_selected_gpus=0 FLAGS_selected_xpus=0`,
		`TRAINING_ROLE=TRAINER PADDLE_ROLE=TRAINER PADDLE_TRAINER_ID=1 PADDLE_PORT=10025 CUDA_VISIBLE_DEVICES=1
			XPU_VISIBLE_DEVICES=1 FLAGS_selected_gpus=0 FLAGS_selected_xpus=0`,
		`TRAINING_ROLE=PSERVER PADDLE_ROLE=PSERVER PADDLE_PORT=34008`,
	} {
		want := strings.Fields(common + own)
		slices.Sort(want)
		if d := cmp.Diff(want, paddles(given[local])); d != "" {
			t.Errorf("process %d (-want +got):\n%s", local, d)
		}
	}
	if !slices.Contains(given[1], "ELASTIC_RANK=1") || !slices.Contains(given[2], "ELASTIC_ROLE=server") {
		t.Errorf("the words of this project: %q, %q", given[1], given[2])
	}
}

// The stages of a heterogeneous job know the stage before and the one after theirs.
func TestEnvironmentOfStages(t *testing.T) {
	t.Parallel()
	spec := roles.Spec{Mode: roles.PSHeter, Servers: []string{"10.0.0.1:6170"},
		Trainers:     []string{"10.0.0.1:6171", "10.0.0.2:6171"},
		Heter:        [][]string{{"10.0.0.1:6172"}, {"10.0.0.2:6172"}},
		HeterDevices: []string{"cpu", "gpu", "cpu"}}
	in := taskInputs(t, &spec, roles.Size{Nodes: 2, Hosts: spec.Hosts()}, 1, "10.0.0.1:1", "10.0.0.1:2",
		"10.0.0.1:3", "10.0.0.1:4", "10.0.0.2:1", "10.0.0.2:2", "10.0.0.2:3")
	given := launch.Given(in)
	for local, own := range []string{
		`TRAINING_ROLE=TRAINER PADDLE_TRAINER_ID=1 STAGE_ID=1 STAGE_NUM=3 HETER_DEVICE_TYPE=cpu PADDLE_PORT=6171
			PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST= PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST=10.0.0.1:6172`,
		`TRAINING_ROLE=HETER_TRAINER STAGE_ID=3 STAGE_NUM=3 HETER_DEVICE_TYPE=cpu PADDLE_PORT=6172 POD_IP=10.0.0.2
			PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST=10.0.0.1:6172 PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST=`,
	} {
		got := paddles(given[local])
		for _, want := range append(strings.Fields(own), "PADDLE_STAGE_TRAINERS_NUM=[2, 1, 1]",
			"PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST=10.0.0.1:6172,10.0.0.2:6172") {
			if !slices.Contains(got, want) {
				t.Errorf("process %d has no %s: %q", local, want, got)
			}
		}
	}
	if id := slices.IndexFunc(given[1],
		func(kv string) bool { return strings.HasPrefix(kv, "PADDLE_TRAINER_ID=") }); id >= 0 {
		t.Error("a heter worker has a trainer's id")
	}
}

func TestLinesAboutServers(t *testing.T) {
	t.Parallel()
	spec := roles.Spec{Mode: roles.PS, Servers: make([]string, 1), Trainers: make([]string, 2)}
	in := taskInputs(t, &spec, roles.Size{Nodes: 1}, 0, "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3",
		"127.0.0.1:4")
	said := launch.AnnounceTasks(in, "log", time.Now())
	for _, want := range []string{"] Local server start 1 processes. First process distributed environment " +
		"info",
		"] Local worker start 2 processes. First", "PSERVER", "TRAINER", "127.0.0.1:1,127.0.0.1:2",
		"Please check servers, workers and heter_worker logs in log/workerlog.*, log/serverlog.* and " +
			"log/heterlog.*"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
	files, err := launch.Records(in)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(files[0].Content), "PADDLE_TRAINER_ENDPOINTS: \n127.0.0.1:1\n127.0.0.1:2\n"+
		"PADDLE_PSERVERS_IP_PORT_LIST: \n127.0.0.1:3\n"; got != want {
		t.Errorf("endpoints.log is\n%s", got)
	}
}

// The lines at the end name the tasks that were ended on this node.
func TestLinesAboutTheEnd(t *testing.T) {
	t.Parallel()
	const through, heter, servers = "all workers exit, going to finish", "all heter_worker are killed",
		"all parameter server are killed"
	of := func(all ...roles.Role) (tasks []roles.Task) {
		for _, role := range all {
			tasks = append(tasks, roles.Task{Role: role})
		}
		return tasks
	}
	for name, c := range map[string]struct {
		tasks []roles.Task
		want  []string
	}{
		"trainers alone": {of(roles.Trainer), []string{through}},
		"and servers": {of(roles.Trainer, roles.Server, roles.Server),
			[]string{through, servers}},
		"and heter workers": {of(roles.Trainer, roles.Heter), []string{through, heter}},
		"servers and heter": {of(roles.Server, roles.Heter, roles.Trainer),
			[]string{through, heter, servers}},
	} {
		lines := launch.AnnounceEnd(c.tasks, time.Now())
		same := func(line, want string) bool { return strings.Contains(line, "] "+want) }
		if !slices.EqualFunc(lines, c.want, same) {
			t.Errorf("%s: %q", name, lines)
		}
	}
}
