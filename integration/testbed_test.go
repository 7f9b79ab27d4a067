package integration

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/elasticd/elastic/pkg/schema"
)

// testbed has machines with a network of their own: each has a network namespace,
// and a bridge in another namespace connects them. It does not use this machine's
// network. It ends with the test, or with this process if that is killed.
type testbed struct {
	*sandbox
	id     string            // what the names of its namespaces begin with
	names  []string          // of the machines with an agent
	addr   map[string]string // by machine
	agents map[string]*proc  // the newest of each machine
	line   []string          // what follows `elastic run` and the flags of the machine
	cuts   map[cut]int       // how often each is cut now
	server *daemon
}

// cut is a direction between two machines in which no packet arrives.
type cut struct{ from, to string }

// newTestbed returns a testbed with a machine for each name, and one for elasticd, which it starts.
func newTestbed(t testing.TB, names ...string) *testbed {
	t.Helper()
	l := &testbed{names: names, id: "el" + strings.ToLower(rand.Text()[:8]), addr: map[string]string{},
		agents: map[string]*proc{}, cuts: map[cut]int{}}
	l.sweep(t)
	l.sandbox = newSandbox(t) // its processes end before their namespaces go
	l.ip("netns", "add", l.ns("switch"))
	l.ip("-n", l.ns("switch"), "link", "add", "bridge", "type", "bridge")
	l.ip("-n", l.ns("switch"), "link", "set", "bridge", "up")
	for i, name := range append([]string{"server"}, names...) {
		l.addr[name] = fmt.Sprintf("10.77.0.%d", i+1)
		l.ip("netns", "add", l.ns(name))
		l.ip("-n", l.ns("switch"), "link", "add", "p"+fmt.Sprint(i), "type", "veth", "peer", "name", "eth0",
			"netns", l.ns(name))
		l.ip("-n", l.ns("switch"), "link", "set", "p"+fmt.Sprint(i), "master", "bridge", "up")
		l.ip("-n", l.ns(name), "address", "add", l.addr[name]+"/24", "dev", "eth0")
		l.ip("-n", l.ns(name), "link", "set", "eth0", "up")
		l.ip("-n", l.ns(name), "link", "set", "lo", "up")
	}
	socket := filepath.Join(l.dir, "etcd.sock") // for this process, which has no other way there
	client := "http://" + l.addr["server"] + ":2379"
	l.server = &daemon{p: l.sandbox, client: "unix://" + socket, program: "nsenter",
		args: l.inside("server", filepath.Join(bin, "elasticd"),
			"--name=server", "--data-dir="+filepath.Join(l.dir, "data"), "--insecure", "--http=",
			"--listen-client-urls="+client+",unix://"+socket, "--advertise-client-urls="+client)}
	l.sandbox.at = l.server.client
	l.server.start()
	l.says(l.server.x, "elasticd: ready: ")
	return l
}

// sweep starts a process that outlives this one, however it ends, and then removes the namespaces.
func (l *testbed) sweep(t testing.TB) {
	t.Helper()
	for _, tool := range []string{"ip", "iptables", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatal("these tests need network namespaces: as root, with the packages iproute2, iptables " +
				"and util-linux")
		}
	}
	const script = `cat; ip netns list | cut -d' ' -f1 | grep "^$0-" | xargs -r -n1 ip netns del`
	cmd := exec.Command("sh", "-c", script, l.id)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	hold, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		hold.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("remove the network: %v", err)
		}
	})
}

func (l *testbed) ns(name string) string { return l.id + "-" + name }

func (l *testbed) ip(args ...string) {
	l.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		l.t.Fatalf("ip %s: %v: %s\nthese tests make network namespaces: run them as root",
			strings.Join(args, " "), err, out)
	}
}

// mark is in the environment of each process that was started on a machine.
func mark(name string) string { return "LAB_MACHINE=" + name }

// inside are the arguments of nsenter for a program on a machine. Its process becomes the program.
func (l *testbed) inside(name, program string, args ...string) []string {
	return append([]string{"--net=/run/netns/" + l.ns(name), "env", mark(name), program}, args...)
}

// all starts an agent on each machine, with this line.
func (l *testbed) all(line ...string) {
	l.t.Helper()
	l.line = line
	for _, name := range l.names {
		l.again(name)
	}
}

// again starts the agent of a machine.
func (l *testbed) again(name string) {
	l.t.Helper()
	args := append([]string{"run", "--server=" + l.addr["server"] + ":2379", "--node=" + name,
		"--log-dir=log-" + name, "--state-dir=" + filepath.Join(l.dir, "state", name)}, l.line...)
	l.agents[name] = l.start("nsenter", l.inside(name, filepath.Join(bin, "elastic"), args...)...)
}

// on returns the processes on a machine: its agent, the guardian, workers, and their descendants.
func (l *testbed) on(name string) []process {
	m := []byte("\x00" + mark(name) + "\x00")
	return slices.DeleteFunc(l.left(), func(x process) bool {
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", x.pid))
		return !bytes.Contains(append([]byte{0}, environ...), m)
	})
}

// agent returns the agent of a machine, if it runs.
func (l *testbed) agent(name string) []process {
	return slices.DeleteFunc(l.on(name),
		func(x process) bool { return x.pid != l.agents[name].cmd.Process.Pid })
}

// workers returns the workers on a machine.
func (l *testbed) workers(name string) []process {
	return slices.DeleteFunc(l.on(name), func(x process) bool { return generation(x) == 0 })
}

// generation returns the generation of a worker process, 0 if the process is no worker.
func generation(x process) schema.Generation {
	g, _ := schema.ParseGeneration(variable(x.pid, "ELASTIC_GENERATION"))
	return g
}

// audit follows a job of this testbed.
func (l *testbed) audit(job string) *audit {
	l.t.Helper()
	return newAudit(l.t, l.server.client, job, func(node string, g schema.Generation) []process {
		return slices.DeleteFunc(l.workers(node), func(x process) bool { return generation(x) >= g })
	})
}

// variable returns a variable in the environment of a process, "" if it is not set.
func variable(pid int, name string) string {
	environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	for kv := range bytes.SplitSeq(environ, []byte{0}) {
		if v, ok := bytes.CutPrefix(kv, []byte(name+"=")); ok {
			return string(v)
		}
	}
	return ""
}

// cut drops all packets from one machine to another, until heal has been called as often.
func (l *testbed) cut(from, to string) {
	l.t.Helper()
	if l.cuts[cut{from, to}]++; l.cuts[cut{from, to}] == 1 {
		l.rule("-I", from, to)
	}
}

func (l *testbed) heal(from, to string) {
	l.t.Helper()
	if l.cuts[cut{from, to}]--; l.cuts[cut{from, to}] == 0 {
		l.rule("-D", from, to)
	}
}

func (l *testbed) rule(do, from, to string) {
	l.t.Helper()
	out, err := exec.Command("ip", "netns", "exec", l.ns(to), "iptables", "-w", do, "INPUT", "-s",
		l.addr[from], "-j", "DROP").CombinedOutput()
	if err != nil {
		l.t.Fatalf("iptables %s %s → %s: %v: %s", do, from, to, err, out)
	}
}
