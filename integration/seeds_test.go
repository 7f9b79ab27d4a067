package integration

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
)

// trainer is a script that prints its environment and arguments, and ends.
const trainer = `import os, sys
keys = ["PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM", "PADDLE_CURRENT_ENDPOINT", "PADDLE_TRAINER_ENDPOINTS",
        "PADDLE_RANK_IN_NODE", "PADDLE_DISTRI_BACKEND", "PADDLE_TRAINERS",
        "FLAGS_selected_gpus", "CUDA_VISIBLE_DEVICES", "RANK", "LOCAL_RANK", "NODE_RANK"]
for k in keys:
    print(k + "=" + os.environ.get(k, "-"))
print("args", sys.argv)
`

// gpus makes the sandbox look like a machine with n GPUs.
func (p *sandbox) gpus(n int) {
	p.t.Helper()
	script := "#!/bin/sh\n"
	for i := range n {
		script += fmt.Sprintf("echo '%d, GPU-%d, 00000000:%d0:00.0'\n", i, i, i)
	}
	if err := os.MkdirAll(p.path("smi"), 0o755); err == nil {
		err = os.WriteFile(p.path("smi", "nvidia-smi"), []byte(script), 0o755)
		if err != nil {
			p.t.Fatal(err)
		}
	}
	p.set("PATH=" + p.path("smi") + ":" + os.Getenv("PATH"))
}

func (p *sandbox) trainers(names ...string) {
	p.t.Helper()
	for _, name := range names {
		if err := os.WriteFile(p.path(name), []byte(trainer), 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
}

// given returns the output of the last start of a worker, from its log.
func (p *sandbox) given(log ...string) map[string]string {
	p.t.Helper()
	vars := map[string]string{}
	for line := range strings.Lines(content(p.path(log...))) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			vars[k] = v
		}
		if rest, ok := strings.CutPrefix(line, "args "); ok {
			vars["args"] = strings.TrimSpace(rest)
		}
	}
	return vars
}

// Every command line for one machine in Paddle's documents, with `elastic run` instead of
// `python -m paddle.distributed.launch`.
func TestPaddleOnOneMachine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		line   string
		gpus   string // as the block shows them
		cards  []string
		script string
		args   string
	}{
		"two cards": {"--gpus=0,1 train_fleet_dygraph.py", "0,1", []string{"0", "1"},
			"train_fleet_dygraph.py", "[]"},
		"two, static": {"--gpus=0,1 train_fleet_static.py", "0,1", []string{"0", "1"},
			"train_fleet_static.py", "[]"},
		"all, with a flag": {"--gpus 0,1,2,3,4,5,6,7 train.py --batch_size=64", "0,1,2,3,4,5,6,7",
			strings.Split("01234567", ""), "train.py", "['--batch_size=64']"},
		"some": {"--gpus 2,3 train.py --batch_size=64", "2,3", []string{"2", "3"}, "train.py",
			"['--batch_size=64']"},
		"with a space": {"--gpus=1,\x003 train.py", "1, 3", []string{"1", "3"}, "train.py", "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSandbox(t)
			p.gpus(8)
			p.trainers(c.script)
			args := strings.Fields(c.line)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "\x00", " ")
			}
			x := p.run(args...)
			p.ends(x, 0)
			n := len(c.cards)
			for i := range c.cards {
				seen := p.given("log", fmt.Sprintf("workerlog.%d", i))
				p.holds(fmt.Sprintf("worker %d", i), seen, map[string]string{
					"PADDLE_TRAINER_ID": fmt.Sprint(i), "PADDLE_TRAINERS_NUM": fmt.Sprint(n),
					"PADDLE_RANK_IN_NODE": fmt.Sprint(i),
					"RANK":                fmt.Sprint(i), "FLAGS_selected_gpus": fmt.Sprint(i),
					"PADDLE_DISTRI_BACKEND":   "-",
					"PADDLE_CURRENT_ENDPOINT": `^127\.0\.0\.1:[0-9]+$`,
				})
				want := "-" // all of them are visible as they are
				if n < 8 {
					want = strings.Join(c.cards, ",")
				}
				p.holds(fmt.Sprintf("worker %d", i), seen, map[string]string{"CUDA_VISIBLE_DEVICES": want})
			}
			p.shows(x, c.gpus, c.script, c.args, n)
			if out := x.stdout(); strings.Count(out, "PADDLE_TRAINER_ID=") != 1 ||
				!strings.Contains(out, "PADDLE_TRAINER_ID=0\n") {
				t.Errorf("the output of the first card alone is shown:\n%s", out)
			}
			lines := strings.Split(strings.TrimSpace(content(p.path("log", "endpoints.log"))), "\n")
			if len(lines) != n+1 || lines[0] != "PADDLE_TRAINER_ENDPOINTS: " {
				t.Errorf("endpoints.log: %q", lines)
			}
			if !strings.Contains(content(p.path("log", "envlog.1")), "\nPADDLE_TRAINER_ID=1\n") {
				t.Error("envlog.1 does not have the rank")
			}
		})
	}
}

// shows compares the output with that of Paddle's launcher, except for times, ports and the width
// of columns.
func (p *sandbox) shows(x *proc, gpus, script, args string, n int) {
	p.t.Helper()
	said := regexp.MustCompile(`[ \t]+`).ReplaceAllString(x.stderr(), " ")
	for _, want := range []string{
		`(?m)^-{11} Configuration Arguments -{11}$`, `(?m)^gpus: ` + gpus + `$`,
		`(?m)^heter_worker_num: None$`,
		`(?m)^ips: 127.0.0.1$`,
		`(?m)^log_dir: log$`, `(?m)^nproc_per_node: None$`, `(?m)^training_script: ` + script + `$`,
		`(?m)^training_script_args: ` + regexp.QuoteMeta(args) + `$`, `(?m)^-{48}$`,
		`(?m)^launch train in GPU mode$`,
		`(?m)^INFO \d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} launch_utils.py:472\] Local start ` + fmt.Sprint(n) +
			` processes. First process distributed environment info \(Only For Debug\):$`,
		`(?m)^\+={87}\+$`, `(?m)^\| Distributed Envs Value \|$`, `(?m)^\| PADDLE_TRAINER_ID 0 \|$`,
		`(?m)^\| PADDLE_TRAINERS_NUM ` + fmt.Sprint(n) + ` \|$`, `(?m)^\| FLAGS_selected_gpus 0 \|$`,
		`(?m)^\| PADDLE_CURRENT_ENDPOINT 127\.0\.0\.1:\d+ \|$`,
		`details abouts PADDLE_TRAINER_ENDPOINTS can be found in log/endpoints.log, ` +
			`and detail running logs maybe found in log/workerlog.0`,
	} {
		if !regexp.MustCompile(want).MatchString(said) {
			p.t.Errorf("%s is not in\n%s", want, said)
		}
	}
}

// given counts the ports that freeAddress has given.
var given atomic.Int32

// freeAddress returns a HOST:PORT at which no process listens. Its port is below those that the kernel
// gives to others, and no other test gets it.
func freeAddress(t *testing.T, host string) string {
	t.Helper()
	const first, after = 7000, 10000
	for range after - first {
		at := fmt.Sprintf("%s:%d", host, first+(os.Getpid()+int(given.Add(1)))%(after-first))
		if l, err := net.Listen("tcp", at); err == nil {
			l.Close()
			return at
		}
	}
	t.Fatal("no free port")
	return ""
}

// Two machines by their addresses: ranks are in the order of the list, and not in the order of
// start. The server is on the first machine.
func TestPaddleOnTwoMachines(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	p.set("ELASTICD_IDLE=2s")
	p.gpus(4)
	p.trainers("train.py")
	at := freeAddress(t, "127.0.0.3")
	line := []string{"--gpus=0,1", "--ips=127.0.0.3,127.0.0.2", "--rdzv-endpoint=" + at}
	for range 2 { // the same line again is another run: the job has no given name
		second := p.run(append(line, "--host=127.0.0.2", "--log-dir=second", "train.py")...)
		p.says(second, "waiting for 1 more node (1 of 2)")
		first := p.run(append(line, "--host=127.0.0.3", "--log-dir=first", "train.py")...)
		p.ends(first, 0)
		p.ends(second, 0)
		for i, log := range []string{"first", "second"} {
			for card := range 2 {
				p.holds(log, p.given(log, fmt.Sprintf("workerlog.%d", card)), map[string]string{
					"PADDLE_TRAINER_ID": fmt.Sprint(2*i + card), "PADDLE_TRAINERS_NUM": "4",
					"NODE_RANK":                fmt.Sprint(i),
					"PADDLE_TRAINERS":          "127.0.0.3,127.0.0.2",
					"PADDLE_TRAINER_ENDPOINTS": `^127\.0\.0\.3:\d+,127\.0\.0\.3:\d+,127\.0\.0\.2:\d+,127\.0\.0\.2:\d+$`,
				})
			}
		}
	}
}

// A node that does not fit is refused with the reason. The job waits for one that fits.
func TestNodesThatDoNotFit(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	p.set("ELASTICD_IDLE=2s")
	p.gpus(4)
	at := freeAddress(t, "127.0.0.3")
	run := func(args ...string) *proc {
		return p.run(append(args, "--rdzv-endpoint="+at, "sh", "-c", "exec sleep 1000")...)
	}
	first := run("--gpus=0,1", "--ips=127.0.0.3,127.0.0.2", "--host=127.0.0.3", "--log-dir=a")
	p.says(first, "waiting for 1 more node")
	for want, args := range map[string][]string{
		"--ips=127.0.0.2,127.0.0.3: the job has 127.0.0.3,127.0.0.2 [E-JOB-DIFFERS]": {"--gpus=0,1",
			"--ips=127.0.0.2,127.0.0.3", "--host=127.0.0.2"},
		"--gpus=0 is one worker for each device, and all nodes of a job have as many": {"--gpus=0",
			"--ips=127.0.0.3,127.0.0.2", "--host=127.0.0.2"},
	} {
		x := run(append(args, "--log-dir=b")...)
		p.ends(x, 2)
		p.says(x, want)
	}
	second := run("--gpus=0,1", "--ips=127.0.0.3,127.0.0.2", "--host=127.0.0.2", "--log-dir=b")
	p.says(second, "generation 1 running: world size 4")
	p.refused(2, "E-NP-RANGE", "scale", "default", "3", "--rdzv-endpoint="+at)
	p.must("stop", "default", "--rdzv-endpoint="+at)
	p.ends(first, 93)
	p.ends(second, 93)
}

// As with torchrun, the endpoint is on one of the nodes. Another node starts first.
func TestEndpointOfANode(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	p.set("ELASTICD_IDLE=2s")
	at := freeAddress(t, "127.0.0.1")
	line := []string{"--nnodes=1:2", "--nproc-per-node=2", "--rdzv-id=c10d", "--rdzv-backend=c10d",
		"--rdzv-endpoint=" +
			at, "--last-call=10s",
		"sh", "-c", "echo rank $RANK of $WORLD_SIZE; sleep 1"}
	a := p.run(line...)
	p.says(a, "started the server of "+at)
	b := p.run(line...)
	p.ends(a, 0)
	p.ends(b, 0)
	if out := a.stdout() + b.stdout(); !strings.Contains(out, "of 4\n") {
		t.Errorf("the world: %s", out)
	}
	until(t, "the server ends by itself", func() error {
		if left := p.servers(); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
}
