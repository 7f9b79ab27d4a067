package integration

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// serving is a script that is a server, a heter worker or a trainer, by its variables. A trainer
// ends when it has dialled every server. If there is a file named hold, it ends when that is
// removed.
const serving = `import os, socket, sys, time
for name in sorted(os.environ):
    print(name + "=" + os.environ[name])
print("args", sys.argv)
sys.stdout.flush()
role = os.environ["TRAINING_ROLE"]
if role != "TRAINER":
    if role == "PSERVER":
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((os.environ["POD_IP"], int(os.environ["PADDLE_PORT"])))
        s.listen()
        open("pid-server", "w").write(str(os.getpid()))
    while True:
        time.sleep(1)
for at in os.environ["PADDLE_PSERVERS_IP_PORT_LIST"].split(","):
    host, port = at.split(":")
    socket.create_connection((host, int(port))).close()
open("pid-" + os.environ["PADDLE_TRAINER_ID"], "w").write(str(os.getpid()))
while os.path.exists("hold"):
    time.sleep(.02)
print("through")
`

func signalPID(t *testing.T, pid string, sig syscall.Signal) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err == nil {
		err = syscall.Kill(n, sig)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// pidIn waits for a file with the number of a process that differs from before.
func (p *sandbox) pidIn(name, before string) (pid string) {
	p.t.Helper()
	until(p.t, name, func() error {
		pid = content(p.path(name))
		if _, err := strconv.Atoi(pid); err != nil || pid == before {
			return fmt.Errorf("%q", pid)
		}
		return nil
	})
	return pid
}

func (p *sandbox) serves(name string) {
	p.t.Helper()
	if err := os.WriteFile(p.path(name), []byte(serving), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// hold makes trainers stay until release.
func (p *sandbox) hold() {
	p.t.Helper()
	if err := os.WriteFile(p.path("hold"), nil, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// release lets the trainers end when the processes with those logs have written what they are given.
// They are stopped when the trainers have ended.
func (p *sandbox) release(logs ...string) {
	p.t.Helper()
	for _, log := range logs {
		until(p.t, log, func() error {
			if text := content(p.path(log)); !strings.Contains(text, "\nargs ") {
				return fmt.Errorf("it has %d bytes", len(text))
			}
			return nil
		})
	}
	if err := os.Remove(p.path("hold")); err != nil {
		p.t.Fatal(err)
	}
}

// The command line of Paddle's quick start for parameter servers: environment, logs and messages.
func TestServersOfTheQuickStart(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	p.gpus(8)
	p.serves("train.py")
	x := p.run("--server_num=1", "--worker_num=2", "--gpus=0,1", "train.py")
	p.ends(x, 0)
	const at = `^127\.0\.0\.1:[0-9]+$`
	common := map[string]string{"PADDLE_TRAINERS_NUM": "2", "POD_IP": "127.0.0.1",
		"PADDLE_GLOO_RENDEZVOUS":       "3",
		"PADDLE_PSERVERS_IP_PORT_LIST": at, "PADDLE_WITH_GLOO": "0", "PADDLE_HETER_TRAINER_IP_PORT_LIST": "",
		"PADDLE_TRAINER_ENDPOINTS":  `^127\.0\.0\.1:[0-9]+,127\.0\.0\.1:[0-9]+$`,
		"PADDLE_GLOO_HTTP_ENDPOINT": at,
		"PADDLE_GLOO_FS_PATH":       `^/.+/gloo$`, "PADDLE_PORT": `^[0-9]+$`}
	for log, own := range map[string]map[string]string{
		"serverlog.0": {"TRAINING_ROLE": "PSERVER"},
		"workerlog.0": {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": "0", "FLAGS_selected_gpus": "0",
			"FLAGS_selected_xpus": "0", "CUDA_VISIBLE_DEVICES": "0", "XPU_VISIBLE_DEVICES": "0"},
		"workerlog.1": {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": "1", "CUDA_VISIBLE_DEVICES": "1"},
	} {
		seen := p.given("log", log)
		p.holds(log, seen, common)
		p.holds(log, seen, own)
		if _, has := seen["PADDLE_TRAINER_ID"]; has && log == "serverlog.0" {
			t.Error("a server has a trainer's id")
		}
	}
	said := regexp.MustCompile(`[ \t]+`).ReplaceAllString(x.stderr(), " ")
	for _, want := range []string{`(?m)^gpus: 0,1$`, `(?m)^server_num: 1$`, `(?m)^worker_num: 2$`,
		`Run parameter-sever mode\. pserver arguments:\['--worker_num', '--server_num'\], cuda count:2`,
		`Local server start 1 processes\. First process distributed environment info \(Only For Debug\):`,
		`(?m)^\| TRAINING_ROLE PSERVER \|$`, `Local worker start 2 processes\. First`,
		`(?m)^\| TRAINING_ROLE TRAINER \|$`, `(?m)^\| PADDLE_TRAINER_ID 0 \|$`,
		`Please check servers, workers and heter_worker logs in ` +
			`log/workerlog\.\*, log/serverlog\.\* and log/heterlog\.\*`,
		`all workers exit, going to finish parameter server and heter_worker\.`,
		`all parameter server are killed`} {
		if !regexp.MustCompile(want).MatchString(said) {
			t.Errorf("%s is not in\n%s", want, said)
		}
	}
	lists := content(p.path("log", "endpoints.log"))
	if !strings.HasPrefix(lists, "PADDLE_TRAINER_ENDPOINTS: \n127.0.0.1:") ||
		!strings.Contains(lists, "\nPADDLE_PSERVERS_IP_PORT_LIST: \n127.0.0.1:") {
		t.Errorf("endpoints.log:\n%s", lists)
	}
}

// ports returns free ports of host.
func ports(t *testing.T, host string, n int) (list []string) {
	t.Helper()
	for range n {
		_, port, err := net.SplitHostPort(freeAddress(t, host))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, port)
	}
	return list
}

// Servers, trainers and heter workers are listed by their addresses, on two machines. Each node
// runs those with its address, at the ports of the lists.
func TestServersOnTwoMachines(t *testing.T) {
	t.Parallel()
	const first, second = "127.0.0.6", "127.0.0.7"
	hosts := []string{first, second}
	for name, heter := range map[string]bool{"ps": false, "ps-heter": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSandbox(t)
			p.set("ELASTICD_IDLE=2s")
			p.serves("train.py")
			p.hold()
			q := ports(t, "127.0.0.1", 7)
			at := func(host int, port int) string { return hosts[host] + ":" + q[port] }
			servers, workers := at(0, 0)+","+at(1, 0),
				strings.Join([]string{at(0, 1), at(0, 2), at(1, 1), at(1, 2)}, ",")
			line := []string{"--servers=" + servers, "--workers=" + workers, "--http_port=" + q[5],
				"--rdzv-endpoint=" + freeAddress(t, first)}
			if heter {
				line = append(line, "--heter_workers="+at(0, 3)+";"+at(1, 3), "--run_mode=ps-heter")
			}
			var nodes []*proc
			for i, host := range hosts {
				nodes = append(nodes,
					p.run(slices.Concat(line, []string{"--host=" + host, fmt.Sprintf("--log-dir=log%d", i),
						"train.py", "--batch_size=64"})...))
			}
			logs := []string{"log0/serverlog.0", "log1/serverlog.0"}
			if heter {
				logs = append(logs, "log0/heterlog.0", "log1/heterlog.0")
			}
			p.release(logs...)
			for i, x := range nodes {
				p.ends(x, 0)
				log := fmt.Sprintf("log%d", i)
				common := map[string]string{"PADDLE_PSERVERS_IP_PORT_LIST": servers,
					"PADDLE_TRAINER_ENDPOINTS": workers,
					"PADDLE_TRAINERS_NUM":      "4", "POD_IP": hosts[i], "PADDLE_GLOO_HTTP_ENDPOINT": first +
						":" + q[5],
					"args": "['train.py', '--batch_size=64']"}
				p.holds(log, p.given(log, "serverlog.0"), common)
				p.holds(log, p.given(log, "serverlog.0"),
					map[string]string{"TRAINING_ROLE": "PSERVER", "PADDLE_PORT": q[0]})
				for k := range 2 {
					p.holds(log, p.given(log, fmt.Sprintf("workerlog.%d", k)),
						map[string]string{"TRAINING_ROLE": "TRAINER",
							"PADDLE_TRAINER_ID": fmt.Sprint(2*i + k), "PADDLE_PORT": q[1+k]})
				}
				if !heter {
					continue
				}
				all := at(0, 3) + "," + at(1, 3)
				previous, next := workers, at(1, 3)
				if i == 1 {
					previous, next = at(0, 3), ""
				}
				p.holds(log, p.given(log, "heterlog.0"),
					map[string]string{"TRAINING_ROLE": "HETER_TRAINER", "PADDLE_PORT": q[3],
						"STAGE_ID": fmt.Sprint(2 + i), "STAGE_NUM": "3",
						"PADDLE_STAGE_TRAINERS_NUM":                  "[4, 1, 1]",
						"PADDLE_HETER_TRAINER_IP_PORT_LIST":          all,
						"PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST":      all,
						"PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST": previous,
						"PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST":     next})
			}
		})
	}
}

// A heterogeneous job on one machine, given by numbers.
func TestHeterWorkersOnOneMachine(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	p.serves("train.py")
	p.hold()
	x := p.run("--server_num=2", "--trainer_num=2", "--heter_worker_num=1;2",
		"--heter_devices=gpu;cpu", "train.py")
	p.release("log/heterlog.2", "log/serverlog.1")
	p.ends(x, 0)
	p.holds("heter worker", p.given("log", "heterlog.2"),
		map[string]string{"STAGE_ID": "3", "HETER_DEVICE_TYPE": "cpu",
			"PADDLE_STAGE_TRAINERS_NUM": "[2, 1, 2]"})
	p.holds("second server", p.given("log", "serverlog.1"), map[string]string{"TRAINING_ROLE": "PSERVER"})
	p.says(x, "all heter_worker are killed")
}

// If a trainer is killed, only that trainer is started again. If a server is killed, all processes
// are started again.
func TestTrainerAndServerKilled(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	p.serves("train.py")
	p.hold()
	x := p.run("--job-id=x", "--server_num=1", "--worker_num=2", "train.py")
	other, killed := p.pidIn("pid-0", ""), p.pidIn("pid-1", "")
	signalPID(t, killed, syscall.SIGKILL)
	p.says(x, "trainer 1 ended with SIGKILL; it is started again alone (1 of 3), the others go on")
	p.pidIn("pid-1", killed)
	if now := content(p.path("pid-0")); now != other {
		t.Errorf("the other trainer is process %s now, and was %s", now, other)
	}
	until(t, "the log has what the new trainer is given", func() error {
		given := p.given("log", "workerlog.1")
		if given["ELASTIC_RESTARTED"] != "1" || given["ELASTIC_GENERATION"] != "1" {
			return fmt.Errorf("ELASTIC_RESTARTED=%q in generation %q",
				given["ELASTIC_RESTARTED"], given["ELASTIC_GENERATION"])
		}
		return nil
	})
	signalPID(t, p.pidIn("pid-server", ""), syscall.SIGKILL)
	p.says(x, "server 0 on")
	p.says(x, "generation 2 running")
	p.release()
	p.ends(x, 0)
	if n := strings.Count(content(p.path("log", "serverlog.0")), "TRAINING_ROLE=PSERVER"); n != 2 {
		t.Errorf("the server started %d times, want 2", n)
	}
}

// The number of trainers changes with the nodes, and a node without a server is lost. The server
// keeps its process and its port.
func TestServersStay(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	p.serves("train.py")
	p.hold()
	nodes := map[string]*proc{}
	join := func(name string) {
		nodes[name] = p.run("--np=2", "--job-id=x", "--node="+name, "--server_num=1",
			"--log-dir=log-"+name, "train.py")
	}
	join("a")
	join("b")
	st := p.after("x", 0, 2)
	lead := st.World[0].Node
	server := p.pidIn("pid-server", "")
	at := p.given("log-"+lead, "serverlog.0")["PADDLE_PORT"]
	p.pidIn("pid-0", "") // servers can stay when all processes of their node run
	stays := func(size int) {
		t.Helper()
		st = p.after("x", st.Generation, size)
		generation := st.Generation
		until(t, "the trainers of the new size", func() error {
			given := p.given("log-"+lead, "workerlog.0")
			if given["ELASTIC_GENERATION"] != fmt.Sprint(generation) ||
				given["PADDLE_TRAINERS_NUM"] != fmt.Sprint(size) {
				return fmt.Errorf("%s of generation %s",
					given["PADDLE_TRAINERS_NUM"], given["ELASTIC_GENERATION"])
			}
			if !strings.HasSuffix(given["PADDLE_PSERVERS_IP_PORT_LIST"], ":"+at) ||
				given["ELASTIC_RESTARTED"] != "1" {
				t.Errorf("a trainer is given %q, ELASTIC_RESTARTED=%q",
					given["PADDLE_PSERVERS_IP_PORT_LIST"], given["ELASTIC_RESTARTED"])
			}
			return nil
		})
		if now := content(p.path("pid-server")); now != server {
			t.Errorf("generation %d: the server is process %s, and was %s", generation, now, server)
		}
	}
	p.must("scale", "x", "--np=3", "--when-ready", "--detach")
	join("c")
	stays(3)
	p.must("scale", "x", "--np=2", "--detach")
	stays(2)
	p.says(nodes["c"], "standing by as a spare")
	p.kill(nodes[st.World[1].Node])
	stays(2)
	if said := p.must("logs", "x", "--gen=all"); !strings.Contains(said,
		"[server 0]: TRAINING_ROLE=PSERVER\n") {
		t.Errorf("elastic logs has nothing of the server:\n%s", tail(said))
	}
	p.release()
	p.ends(nodes[lead], 0)
	if log := content(p.path("log-"+lead, "serverlog.0")); !strings.Contains(log,
		fmt.Sprintf("generation %d, server 0", st.Generation)) {
		t.Errorf("the log of the server does not name generation %d:\n%s", st.Generation, tail(log))
	}
	if n := strings.Count(content(p.path("log-"+lead, "serverlog.0")), "TRAINING_ROLE=PSERVER"); n != 1 {
		t.Errorf("the server started %d times, want 1", n)
	}
}

// A node with a server is killed, and comes back with its server at the same address. Then every
// server is a new process, because all of them must load the same tables.
func TestServerComesBackAtItsAddress(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	p.serves("train.py")
	p.hold()
	hosts, q := []string{"127.0.0.8", "127.0.0.9"}, ports(t, "127.0.0.1", 2)
	servers := hosts[0] + ":" + q[0] + "," + hosts[1] + ":" + q[1]
	at := freeAddress(t, hosts[0])
	join := func(i int) *proc {
		return p.run("--job-id=x", "--servers="+servers, "--workers="+strings.Join(hosts, ","),
			"--rdzv-endpoint="+at, "--host="+hosts[i], "--node=n"+hosts[i],
			fmt.Sprintf("--log-dir=log%d", i), "train.py")
	}
	starts := func(i, want int) {
		t.Helper()
		until(t, fmt.Sprintf("the processes of node %d have started %d times", i, want), func() error {
			for _, log := range []string{"serverlog.0", "workerlog.0"} {
				if n := strings.Count(content(p.path(fmt.Sprintf("log%d", i), log)),
					"TRAINING_ROLE="); n != want {
					return fmt.Errorf("%s: %d", log, n)
				}
			}
			return nil
		})
	}
	first, second := join(0), join(1)
	starts(0, 1)
	starts(1, 1)
	p.pidIn("pid-1", "")
	p.kill(second)
	second = join(1)
	starts(0, 2)
	starts(1, 2)
	for i := range hosts {
		given := p.given(fmt.Sprintf("log%d", i), "workerlog.0")
		if given["PADDLE_PSERVERS_IP_PORT_LIST"] != servers || given["ELASTIC_RESTARTED"] != "" {
			t.Errorf("trainer %d is given %q, ELASTIC_RESTARTED=%q",
				i, given["PADDLE_PSERVERS_IP_PORT_LIST"], given["ELASTIC_RESTARTED"])
		}
	}
	p.release()
	p.ends(first, 0)
	p.ends(second, 0)
}

// A trainer that always fails ends the job. Each generation starts it again a few times. The last
// of these failures spends a restart of the job.
func TestTrainerThatFailsForEver(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	fails := "import os\nif os.environ.get('PADDLE_TRAINER_ID') == '1': os._exit(7)\n" + serving
	if err := os.WriteFile(p.path("fails.py"), []byte(fails), 0o644); err != nil {
		t.Fatal(err)
	}
	p.hold()
	x := p.run("--max-restarts=1", "--server_num=1", "--worker_num=2", "fails.py")
	p.ends(x, 7)
	if n := strings.Count(x.stderr(), "it is started again alone (1 of 1), the others go on"); n != 2 {
		t.Errorf("it was started again alone %d times, want once in each of 2 generations", n)
	}
	p.says(x, "restarts used (1 of 1)")
}

// Flags that contradict each other, or are impossible, are refused before any process starts.
func TestServersThatAreRefused(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	p.serves("train.py")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fake := p.path("fake", "paddle")
	for name, text := range map[string]string{"__init__.py": "",
		"version/__init__.py": "full_version  = '3.3.1'\n", "base/libpaddle.so": "no such class"} {
		path := filepath.Join(fake, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(p.path("uses.py"), []byte("import paddle\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p.set("PYTHONPATH=" + p.path("fake"))
	for _, c := range []struct {
		status int
		want   string
		args   []string
	}{
		{2, "--servers=10.9.9.9:6170 without --workers [E-USAGE]",
			[]string{"--servers=10.9.9.9:6170", "train.py"}},
		{2, "without --servers [E-USAGE]", []string{"--workers=10.9.9.9:6170", "train.py"}},
		{125, "none is an address of this machine [E-ADDRESS]", []string{"--servers=10.9.9.9:6170",
			"--workers=10.9.9.9,10.9.9.8", "train.py"}},
		{125, "is not among --servers, --workers=10.9.9.9,10.9.9.8 [E-ADDRESS]", []string{"--host=127.0.0.1",
			"--servers=10.9.9.9:6170", "--workers=10.9.9.9,10.9.9.8", "train.py"}},
		{125, "is in use [E-PORTS]",
			[]string{"--servers=" + l.Addr().String(), "--workers=127.0.0.1", "train.py"}},
		{2, "--run-mode=collective and --server_num [E-USAGE]",
			[]string{"--run-mode=collective", "--server_num=1", "train.py"}},
		{2, "--ips=127.0.0.1 and parameter servers [E-USAGE]",
			[]string{"--ips=127.0.0.1", "--server_num=1", "train.py"}},
		{2, "--hang-timeout=10s and parameter servers [E-USAGE]",
			[]string{"--hang-timeout=10s", "--server_num=1", "train.py"}},
		{2, "and --server-num=2 [E-USAGE]", []string{"--servers=127.0.0.1:1", "--server-num=2", "train.py"}},
		{2, "an empty address [E-USAGE]",
			[]string{"--servers=127.0.0.1:1,", "--workers=127.0.0.1", "train.py"}},
		{2, "has no port [E-USAGE]", []string{"--servers=127.0.0.1", "--workers=127.0.0.1", "train.py"}},
		{2, "mode ps with heter workers", []string{"--run_mode=ps", "--heter_worker_num=1", "train.py"}},
		{126, "paddle 3.3.1 has no parameter servers [E-PADDLE-PS]", []string{"--server_num=1", "uses.py"}},
	} {
		x := p.run(c.args...)
		p.ends(x, c.status)
		p.says(x, c.want)
	}
}

// The workers of a job with --run_mode=rpc know their rendezvous address, and logs have their
// ranks.
func TestRPC(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	x := p.run("--run_mode=rpc", "--nproc_per_node=2", "sh", "-c", "env")
	p.ends(x, 0)
	for rank := range 2 {
		p.holds("rpc", p.given("log", fmt.Sprintf("workerlog.%d", rank)), map[string]string{
			"PADDLE_MASTER_ENDPOINT": `^127\.0\.0\.1:\d+$`, "PADDLE_WORKER_ENDPOINT": `^127\.0\.0\.1:\d+$`,
			"PADDLE_TRAINER_ID": fmt.Sprint(rank), "PADDLE_TRAINERS_NUM": "2"})
	}
}
