package integration

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// public copies the programs to where every user of the machine may run them.
func (p *sandbox) public() (elastic string) {
	p.t.Helper()
	if os.Getuid() != 0 {
		p.t.Fatal("this test becomes another user: run it as root")
	}
	shared, err := os.MkdirTemp("/tmp", "shared")
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { os.RemoveAll(shared) })
	if out, err := exec.Command("cp", filepath.Join(bin, "elastic"), filepath.Join(bin, "elasticd"), shared).
		CombinedOutput(); err != nil {
		p.t.Fatalf("%v: %s", err, out)
	}
	p.open(shared)
	return filepath.Join(shared, "elastic")
}

// Another user of the machine gets nowhere with a job whose nodes name an address of loopback, as
// torchrun's do: nothing listens there, the socket is closed, and the port cannot be squatted.
func TestNeighbourOnLoopback(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	elastic := p.public()
	at := freeAddress(t, "127.0.0.1")
	line := []string{"--rdzv-endpoint=" + at, "--rdzv-id=x", "--nnodes=1:2", "--last-call=100ms"}
	a := p.run(append(line, "--node=a", "sh", "-c", "exec sleep 1000")...)
	p.says(a, "generation 1 running")
	p.open(p.dir, filepath.Join(p.dir, "run"))

	if c, err := net.Dial("tcp", at); err == nil {
		c.Close()
		t.Error("the server of the job listens on TCP")
	}
	_, port, _ := net.SplitHostPort(at)
	socket := "unix://" + filepath.Join(p.dir, "run", "elastic-"+port, "etcd.sock")
	for name, args := range map[string][]string{
		"the address":           {"jobs", "--rdzv-endpoint=" + at},
		"the address as server": {"jobs", "--server=" + at},
		"the socket":            {"jobs", "--server=" + socket},
		"a stop":                {"stop", "x", "--server=" + at},
		"a node":                {"run", "--server=" + at, "--job-id=x", "--connect-timeout=1s", "--other-program", "true"},
	} {
		if out, err := p.asNobody(elastic, args...); err == nil || strings.Contains(out, "\nx ") {
			t.Errorf("another user, by %s: %v\n%s", name, err, out)
		}
	}

	// A squatter at the port gets nothing: nodes of the job do not look there.
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := p.run(append(line, "--node=b", "--log-dir=log-b", "sh", "-c", "exec sleep 1000")...)
	p.says(b, "generation 2 running")
	p.must("stop", "x", "--rdzv-endpoint="+at)
	p.ends(a, 93)
	p.ends(b, 93)

	// Where no job runs yet, what listens there is named, and not used.
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	x := p.run("--rdzv-endpoint="+other.Addr().String(), "true")
	p.ends(x, 1)
	p.says(x, "another program listens at "+other.Addr().String()+" [E-SERVER-WRONG]")
}

// Nodes on two machines share a token: by a common state directory, by a file, or by a variable. A
// machine without it gets nothing, and a node tells nothing to a server without it.
func TestTokenOfTwoMachines(t *testing.T) {
	t.Parallel()
	l := newTestbed(t, "a", "b", "c")
	at := l.addr["a"] + ":29400"
	run := func(name string, flags ...string) *proc {
		line := append([]string{"run", "--rdzv-endpoint=" + at, "--np=2:3", "--job-id=x", "--node=" + name,
			"--log-dir=log-" + name, "--last-call=100ms", "--connect-timeout=5s"}, flags...)
		return l.start("nsenter", l.inside(name, filepath.Join(bin, "elastic"),
			append(line, "sh", "-c", "exec sleep 1000")...)...)
	}
	own := func(name string) string { return "--state-dir=" + filepath.Join(l.dir, "state", name) }
	token := filepath.Join(l.dir, "state", "a", "tokens", at)

	a := run("a", own("a"))
	l.says(a, "started the server of "+at)
	l.says(a, "elastic: machines that do not share "+token+" need a copy of it: --token-file=FILE")
	if strings.Contains(a.stderr(), strings.TrimSpace(content(token))) {
		t.Error("the token is in a log")
	}
	stranger := run("c", own("c"))
	l.ends(stranger, 4)
	l.says(stranger, "the server has another token, or is another one [E-SERVER-AUTH]")
	plain := run("c", own("c"), "--insecure")
	l.ends(plain, 1)
	l.says(plain, "[E-SERVER-WRONG]")

	b := run("b", own("b"), "--token-file="+token)
	l.says(b, "generation 1 running")
	c := run("c", own("a")) // it shares the directory of the first
	l.says(c, "generation 2 running")
	command := func(line ...string) (string, error) {
		cmd := exec.Command("nsenter", l.inside("b", filepath.Join(bin, "elastic"),
			append(line, "--rdzv-endpoint="+at, own("b"))...)...)
		cmd.Env = append(l.env, "ELASTIC_TOKEN="+content(token))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := command("status", "x"); err != nil || !strings.Contains(out, "running") {
		t.Errorf("status on another machine: %v\n%s", err, out)
	}
	if out, err := command("stop", "x"); err != nil {
		t.Errorf("stop on another machine: %v\n%s", err, out)
	}
	for _, x := range []*proc{a, b, c} {
		l.ends(x, 93)
	}
}

// With --insecure on every node the server serves whoever reaches it, as before, and says so.
func TestInsecureIsSaid(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	at := freeAddress(t, "127.0.0.1")
	a := p.run("--insecure", "--rdzv-endpoint="+at, "--rdzv-id=x", "--nnodes=1", "sh", "-c", "exec sleep 1000")
	p.says(a, fmt.Sprintf("anyone who reaches %s can run programs as the users of its nodes", at))
	p.says(a, "generation 1 running")
	p.must("stop", "x", "--server="+at)
	p.ends(a, 93)
}
