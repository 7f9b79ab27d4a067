package integration

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// warmScript prints its process and its generation, and trains without end. With TORCH, a python with torch, it
// also imports what torch imports when a model is made.
const warmScript = `import os, sqlite3, sys, time
if "TORCH" in os.environ:
    import torch
    torch.optim.SGD(torch.nn.parallel.DataParallel(torch.nn.Linear(2, 2)).parameters(), lr=0.1)
print("begun", os.getpid(), os.environ["ELASTIC_GENERATION"], os.environ["MASTER_PORT"], sys.argv, flush=True)
time.sleep(1000)
`

var begunIn = regexp.MustCompile(`(?m)^begun (\d+) (\d+) (\d+) \['train.py', 'x'\]$`)

// waiting finds the processes that wait for their World: each reads from its descriptor 3.
func waiting(agent int) (found []string) {
	all, _ := os.ReadDir("/proc")
	for _, e := range all {
		comm, _ := os.ReadFile("/proc/" + e.Name() + "/comm")
		call, _ := os.ReadFile("/proc/" + e.Name() + "/syscall")
		if f := strings.Fields(string(call)); string(comm) == "elastic-warm\n" && len(f) > 1 &&
			f[1] == "0x3" &&
			slices.Contains(ancestors(e.Name()), strconv.Itoa(agent)) {
			found = append(found, e.Name())
		}
	}
	return found
}

func ancestors(pid string) (all []string) {
	for pid != "0" && pid != "" {
		all = append(all, pid)
		stat, _ := os.ReadFile("/proc/" + pid + "/stat")
		_, rest, _ := strings.Cut(string(stat), ") ")
		if f := strings.Fields(rest); len(f) > 1 {
			pid = f[1]
		} else {
			pid = ""
		}
	}
	return all
}

// The waiting process takes the place of a worker that is killed, with the environment of its
// generation. Then another process waits. With --warm=off no process waits.
func TestWarmWorkersTakeOver(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	if err := os.WriteFile(p.path("train.py"), []byte(warmScript), 0o600); err != nil {
		t.Fatal(err)
	}
	python := cmp.Or(os.Getenv("TORCH"), "/usr/bin/python3")
	off := p.run("--job-id=off", "--log-dir=off", "--warm=off", python, "train.py", "x")
	a := p.run("--job-id=x", "--nproc-per-node=2", "--max-restarts=5", "--console=all", python, "train.py", "x")
	var ports []string
	for generation := 1; generation <= 2; generation++ {
		var next []string
		within(t, 4*limit, "two processes wait", func() error {
			if next = waiting(a.cmd.Process.Pid); len(next) != 2 {
				return fmt.Errorf("%v wait", next)
			}
			return nil
		})
		began := begunIn.FindAllStringSubmatch(p.read("log", "workerlog.0"), -1)
		if len(began) != generation {
			t.Fatalf("generation %d: %v", generation, began)
		}
		pid, _ := strconv.Atoi(began[generation-1][1])
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		until(t, "the next workers begin", func() error {
			began = begunIn.FindAllStringSubmatch(p.read("log", "workerlog.0"), -1)
			if len(began) == generation {
				return errors.New("not yet")
			}
			return nil
		})
		now := began[generation]
		if !slices.Contains(next, now[1]) || now[2] != strconv.Itoa(generation+1) {
			t.Errorf("%v waited; generation %s has %s", next, now[2], now[1])
		}
		if ports = append(ports, now[3]); slices.Contains(ports[:generation-1], now[3]) {
			t.Errorf("generation %d has the port of an older one: %v", generation+1, ports)
		}
	}
	if got := waiting(off.cmd.Process.Pid); len(got) > 0 {
		t.Errorf("with --warm=off %v wait", got)
	}
	p.kill(a, off)
}
