package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A job hangs because of one rank, in several ways. The report names the right rank, the evidence
// has its stack, and the job finishes after one restart. COUNT repeats the test.
func TestHangsAreFound(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs(filepath.Join("testdata", "hang.py"))
	if err != nil {
		t.Fatal(err)
	}
	helper := map[string]string{"lock": "1"} // the script of this one imports the Python helper
	for how, says := range map[string]string{
		"skip": "barrier (", "load": "load (", "lock": "lock (", "stop": "is stopped", "save": "save (",
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			for i := range soak(t) {
				bad := (i + 1) % 4
				p := newSandbox(t)
				p.set(fmt.Sprintf("BAD=%d", bad), "HOW="+how, "HELPER="+helper[how])
				args := []string{"--np=2", "--nproc-per-node=2", "--job-id=x", "--max-restarts=1",
					"--hang-timeout=3s", "--console=none", "/usr/bin/python3", script}
				a, b := p.run(append([]string{"--node=a"}, args...)...),
					p.run(append([]string{"--node=b"}, args...)...)
				p.ends(a, 0)
				p.ends(b, 0)
				all := p.events("x")
				failures := kinds(all, "worker_failed")
				if len(failures) != 1 {
					t.Fatalf("rank %d: %+v", bad, failures)
				}
				text := failures[0].Text
				if !strings.HasPrefix(text, fmt.Sprintf("rank %d on ", bad)) ||
					!strings.Contains(text, "hangs: no rank showed a sign of life for 3s") ||
					!strings.Contains(text, says) {
					t.Errorf("rank %d, %s: %s", bad, how, text)
				}
				began, found := kinds(all, "world_running")[0].Time, failures[0].Time
				from, err1 := time.Parse(time.RFC3339, began)
				to, err2 := time.Parse(time.RFC3339, found)
				if err1 != nil || err2 != nil {
					t.Fatal(err1, err2)
				}
				t.Logf("rank %d, %s: found %s after the start: %s", bad, how, to.Sub(from), text)
				dirs, _ := filepath.Glob(p.path("log*", "hang-1"))
				more, _ := filepath.Glob(p.path("log", "*", "hang-1"))
				if dirs = append(dirs, more...); len(dirs) != 1 {
					t.Fatalf("evidence in %v", dirs)
				}
				if reports, _ := filepath.Glob(filepath.Join(dirs[0], "rank-*.txt")); len(reports) != 4 {
					t.Errorf("evidence: %v", reports)
				}
			}
		})
	}
}

// slowWork makes rank 0 evaluate, save and download in turn, without output, each for longer than
// the limit. The other rank waits for it.
const slowWork = `import os, socket, time

def evaluate(end):
    while time.time() < end:
        pass

def save(end):
    with open("save", "wb") as file:
        while time.time() < end:
            file.seek(0)
            file.write(b"x" * 200000)
            file.flush()
            os.fsync(file.fileno())
            time.sleep(0.1)

def download(end):
    here, there = connected()
    while time.time() < end:
        there.sendall(b"x" * 50000)
        left = 50000
        while left:
            left -= len(here.recv(left))
        time.sleep(0.1)

def connected():
    server = socket.create_server(("127.0.0.1", 0))
    here = socket.create_connection(server.getsockname())
    return here, server.accept()[0]

if os.environ["RANK"] == "0":
    through = time.time() + float(os.environ["SECONDS"])
    while time.time() < through:
        for work in evaluate, save, download:
            work(time.time() + 4)
    open("through", "w")
while not os.path.exists("through"):
    time.sleep(0.2)
`

// Ranks that wait for one that evaluates, saves or downloads do not hang. COUNT is the number of
// minutes.
func TestSlowWorkIsNoHang(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	if err := os.WriteFile(p.path("t.py"), []byte(slowWork), 0o600); err != nil {
		t.Fatal(err)
	}
	works := endure(t, time.Second, time.Duration(soak(t))*time.Minute)
	p.set(fmt.Sprintf("SECONDS=%d", int(works.Seconds())))
	x := p.run("--nproc-per-node=2", "--job-id=x", "--node=a", "--hang-timeout=2s", "--max-restarts=0",
		"/usr/bin/python3", "t.py")
	within(t, works+limit, "the work is done",
		func() error { _, err := os.Stat(p.path("through")); return err })
	p.ends(x, 0)
	if failures := kinds(p.events("x"), "worker_failed"); len(failures) != 0 {
		t.Errorf("%+v", failures)
	}
}

// A worker that gets little processor time does not hang.
func TestStarvedWorkIsNoHang(t *testing.T) {
	p := newSandbox(t)
	script := "import os, time\nopen('begun', 'w')\nwhile not os.path.exists('fed'):\n    for _ in " +
		"range(1000): pass\n"
	if err := os.WriteFile(p.path("t.py"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	// All processes run on one processor, where the worker has the lowest priority: in its session,
	// and of all sessions.
	busy := exec.CommandContext(t.Context(), "taskset", "-c", "0", "sh", "-c",
		"for i in 1 2 3; do sh -c 'while :; do :; done' & done; wait")
	busy.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	busy.Cancel = func() error { return syscall.Kill(-busy.Process.Pid, syscall.SIGKILL) }
	x := p.run("--job-id=x", "--node=a", "--hang-timeout=2s", "--max-restarts=0", "--",
		"sh", "-c", "echo 19 >/proc/self/autogroup; exec chrt -i 0 taskset -c 0 /usr/bin/python3 t.py")
	until(t, "the worker computes", func() error { _, err := os.Stat(p.path("begun")); return err })
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(endure(t, 6*time.Second, time.Minute))
	if err := busy.Cancel(); err != nil {
		t.Error(err)
	}
	_ = busy.Wait() // an error: it was killed
	if err := os.WriteFile(p.path("fed"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.ends(x, 0)
	if failures := kinds(p.events("x"), "worker_failed"); len(failures) != 0 {
		t.Errorf("%+v", failures)
	}
}
