package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// mount mounts a small file system of memory in a new directory.
func (p *sandbox) mount(name, options string) string {
	p.t.Helper()
	dir := filepath.Join(p.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		p.t.Fatalf("mount a small disk: %v: run this test as root", err)
	}
	p.t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			p.t.Error(err)
		}
	})
	return dir
}

// A checkpoint directory that cannot be written is refused before any file is made. The error has
// the reason and a fix.
func TestCheckpointDirectoryThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	full, readonly := p.mount("full", "size=64k"), p.mount("readonly", "size=64k")
	if err := os.WriteFile(filepath.Join(full, "fill"), make([]byte, 1<<16), 0o600); err == nil {
		t.Log("the disk has room for all of it")
	}
	if err := unix.Mount("", readonly, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string][2]string{
		full:                           {"no space left on device", "make room on its disk"},
		readonly:                       {"read-only file system", "mounted for writing"},
		filepath.Join(readonly, "new"): {"read-only file system", "mounted for writing"},
	} {
		x := p.run("--np=1", "--job_id=x", "--checkpoint-dir="+dir, "true")
		p.ends(x, 125)
		lines := strings.Split(strings.TrimSpace(x.stderr()), "\n")
		if len(lines) != 3 || !strings.Contains(lines[0], want[0]) ||
			!strings.HasSuffix(lines[0], "[E-CKPT-DIR]") ||
			!strings.HasPrefix(lines[1], "  why: ") || !strings.Contains(lines[2], want[1]) {
			t.Errorf("%s: it says\n%s", dir, x.stderr())
		}
	}
	if out, err := p.try("jobs"); err == nil && strings.Contains(out, "x ") {
		t.Errorf("a job was made: %s", out)
	}
}

// The disk of the state directory fills up while a job saves. Saves that do not fit are not taken,
// the job goes on, and committed checkpoints stay. A message has the file and a fix.
func TestStateDirectoryFillsUp(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	p.daemons(1)
	small := p.mount("small", "size=3m")
	p.set("XDG_STATE_HOME=" + small)
	a := saving(p, `
for step in range(1, 9):
    save("weights.raw", step)
    open(f"{d}/more.raw", "wb").write(os.urandom(900000))
    time.sleep(1.2)
`, "--save-files=weights.raw,more.raw")
	p.ends(a, 0)
	all := p.events("x")
	refused := kinds(all, "checkpoint_refused")
	if n := len(kinds(all, "checkpoint_committed")); n == 0 || len(refused) == 0 || len(refused) > 2 {
		t.Errorf("%d saves were committed, %d refusals reported", n, len(refused))
	}
	for _, want := range []string{"was not taken (no-space)", "make room on the disk of"} {
		if !strings.Contains(a.stderr(), want) {
			t.Errorf("it does not say %q:\n%s", want, a.stderr())
		}
	}
	p.must("ckpt", "get", "x", filepath.Join(p.dir, "got"))
}

// The disks of all nodes are restored from a backup that is older than all checkpoints in the
// record: the checkpoints are reported as lost, and the job does not begin from scratch.
func TestRecordIsNewerThanTheDisks(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	p.daemons(1)
	a, b := trains(p, "a", 2), trains(p, "b", 2)
	p.running("x", 1, 2)
	p.committed("x", 2)
	end := func() {
		p.kill(a, b)
		<-a.done
		<-b.done
	}
	end()
	state, backup := filepath.Join(p.dir, "state"), filepath.Join(p.dir, "backup")
	if out, err := exec.Command("cp", "-a", state, backup).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	had := len(kinds(p.events("x"), "checkpoint_committed"))
	// the record names the checkpoint of the newest generation, not that of generation 2
	for _, g := range []int{2, 3} {
		a, b = trains(p, "a", 2), trains(p, "b", 2)
		p.running("x", g, 2)
		p.committed("x", g*had+6)
		end()
	}
	if err := os.RemoveAll(state); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(backup, state); err != nil {
		t.Fatal(err)
	}
	a, b = trains(p, "a", 2), trains(p, "b", 2)
	p.ends(a, 93)
	p.ends(b, 93)
	for _, x := range []*proc{a, b} {
		if !strings.Contains(x.stderr(), "[E-CKPT-LOST]") {
			t.Errorf("it says\n%s", tail(x.stderr()))
		}
	}
}

// A node goes to another server, to which its user moves the job.
func TestAJobMovesToAnotherServer(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	p.daemons(1)
	a := trains(p, "a", 1)
	p.running("x", 1, 1)
	p.committed("x", 2)
	p.must("stop", "x")
	p.ends(a, 93)
	newest := p.newestStep()
	q := newSandbox(t)
	q.daemons(1)
	p.at = q.at
	p.refuses(trains(p, "a", 1), "E-OTHER-SERVER")
	p.beginsAt(newest, flagged(p, "--resume", "a", 1))
	p.must("ckpt", "get", "x", filepath.Join(p.dir, "got"))
}

// Two jobs have the same checkpoint directory. The second one is refused while a node of the first
// uses it, and may use it after that node has ended.
func TestTwoJobsWithOneDirectory(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	p.daemons(1)
	dir := p.path("shared")
	node := func(job string) *proc {
		return p.run("--np=1", "--job_id="+job, "--node="+job, "--log-dir=log-"+job, "--checkpoint-dir="+dir,
			"sleep", "1000")
	}
	x := node("x")
	p.running("x", 1, 1)
	y := node("y")
	p.ends(y, 125)
	for _, want := range []string{"nodes of job x save into it [E-CKPT-DIR]", "another --checkpoint-dir"} {
		if !strings.Contains(y.stderr(), want) {
			t.Errorf("it does not say %q:\n%s", want, y.stderr())
		}
	}
	if err := x.kill(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-x.done
	node("y")
	p.running("y", 1, 1)
}

// A server on a disk that holds its log and little more is killed, and starts again there: it uses
// the part of the log that it had created in advance.
func TestServerStartsAgainOnASmallDisk(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	p.mount("data-m0", "size=165m")
	d := p.daemons(1)[0]
	for range 2 {
		d.end()
		d.start()
		p.says(d.x, "elasticd: ready: clients http://"+d.client)
	}
}
