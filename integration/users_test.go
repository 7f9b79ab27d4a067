package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// nobody is the number of the system user "nobody": the other user of this machine.
const nobody = 65534

// asNobody runs a program as another user of this machine, and returns its output.
func (p *sandbox) asNobody(name string, args ...string) (string, error) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), name, args...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "XDG_RUNTIME_DIR=" +
		filepath.Join(p.dir, "run"),
		"XDG_STATE_HOME=" + filepath.Join(p.dir, "state")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// open lets every user of this machine enter a directory, so that only the modes of what elastic
// made keep them out.
func (p *sandbox) open(dirs ...string) {
	p.t.Helper()
	for _, d := range dirs {
		if err := os.Chmod(d, 0o755); err != nil {
			p.t.Fatal(err)
		}
	}
}

// Another user of the machine can neither use the servers nor read or write anything of a job:
// sockets, state, checkpoints, logs, and the environment of the processes. It can see that they are
// there.
func TestTwoUsers(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Fatal("this test becomes another user: run it as root")
	}
	p := newSandbox(t)
	shared, err := os.MkdirTemp("/tmp", "shared") // programs that every user may run
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(shared) })
	if out, err := exec.Command("cp", filepath.Join(bin, "elastic"), filepath.Join(bin, "elasticd"), shared).
		CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p.open(shared, p.dir, p.path(), filepath.Join(p.dir, "run"))
	elastic := filepath.Join(shared, "elastic")

	own := p.start(filepath.Join(bin, "elasticd"), "--name=own") // with the sockets that it has by default
	p.says(own, "elasticd: ready: ")
	a := trains(p, "a", 1)
	p.running("x", 1, 1)
	p.committed("x", 1)
	p.open(filepath.Join(p.dir, "state")) // made by elastic, for its user alone
	local := "unix://" + filepath.Join(p.dir, "run", "elastic", "etcd.sock")
	for _, at := range []string{local, "unix://" + p.path("own.etcd", "clients.sock")} {
		if out, err := p.asNobody(elastic, "jobs", "--server="+at); err == nil ||
			!strings.Contains(out, "permission denied") {
			t.Errorf("another user asks %s: %v\n%s", at, err, out)
		}
	}
	if out, err := p.asNobody(elastic, "run", "--np=1", "--job-id=x", "true"); err == nil ||
		!strings.Contains(out, "[E-") {
		t.Errorf("another user runs a node in the directories of the first: %v\n%s", err, out)
	}

	// Everything below the directory, except what this test itself opened.
	for _, test := range []string{"-readable", "-writable"} {
		// its status says that it could not enter everything
		out, _ := p.asNobody("find", p.dir, test, "-not", "-type", "l", "-print")
		for file := range strings.Lines(out) {
			file = strings.TrimSpace(file)
			made := strings.HasPrefix(file, filepath.Join(p.dir, "state")+"/") ||
				strings.HasPrefix(file, filepath.Join(p.dir, "run")+"/") ||
				strings.HasPrefix(file, p.path()+"/")
			if made && !strings.Contains(file, "Permission denied") {
				t.Errorf("another user finds %s %s", file, test)
			}
		}
	}
	for _, x := range append(p.left(), p.servers()...) {
		if out, err := p.asNobody("cat", fmt.Sprintf("/proc/%d/environ", x.pid)); err == nil {
			t.Errorf("another user reads the environment of %s: %.60q", x, out)
		}
		if out, err := p.asNobody("kill", "-TERM", fmt.Sprint(x.pid)); err == nil {
			t.Errorf("another user ends %s: %s", x, out)
		}
	}
	if _, gone := a.ended(); gone {
		t.Error("the agent has ended")
	}
	p.must("stop", "x")
	p.ends(a, 93)
}
