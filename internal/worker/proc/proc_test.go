package proc

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A reused pid belongs to another process.
func TestSignalSparesTheNextOwnerOfAPID(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, ok := Find(cmd.Process.Pid)
	if !ok {
		t.Fatal("not found")
	}
	earlier := p
	earlier.Start--
	if err := earlier.Signal(syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("%v", err)
	}
	stdin.Close()
	if err := cmd.Wait(); err != nil { // it ended by itself
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("%v", err)
	}
	for _, pid := range []int{-1, 0, 1, os.Getpid()} {
		if err := (Process{PID: pid}).Signal(syscall.SIGKILL); !errors.Is(err, os.ErrPermission) {
			t.Errorf("pid %d: %v", pid, err)
		}
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	const rest = " S 7 8 9 0 -1 4194304 100 0 0 0 1 2 3 4 20 0 5 0 123456 1000 10 18446744073709551615" +
		" 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 5000 5100 52\n"
	want := Process{PID: 42, Parent: 7, Group: 8, Session: 9, State: 'S', threads: 5, Start: 123456,
		CPU: 30 * time.Millisecond, envStart: 5000, envEnd: 5100}
	for _, name := range []string{"(sh)", "(a b)", "() S 1 1 1 (x)", "()"} {
		got, ok := parseStat(42, "42 "+name+rest)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Process{})); !ok || diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for _, bad := range []string{"", "42 (sh", "42 (sh) S 1 2"} {
		if _, ok := parseStat(42, bad); ok {
			t.Errorf("%q is a process", bad)
		}
	}
}

func TestEnviron(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env  []string
		want string
	}{
		{[]string{"A=1", "B=two words"}, "two words"},
		{[]string{"AB=1", "B"}, ""},
		{[]string{}, ""},
	} {
		cmd := exec.Command("cat")
		cmd.Env = c.env
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p, ok := Find(cmd.Process.Pid)
		got, sure := p.Environ("B")
		for ; !sure; got, sure = p.Environ("B") { // exec is under way
			select {
			case <-t.Context().Done():
				t.Fatal("it is never known")
			case <-time.After(5 * time.Millisecond):
			}
		}
		if got != c.want {
			t.Errorf("%q: %q", c.env, got)
		}
		stdin.Close()
		if err := cmd.Wait(); err != nil || !ok {
			t.Fatal(err)
		}
		if got, sure := p.Environ("B"); got != "" || !sure {
			t.Errorf("after its end: %q %v", got, sure)
		}
	}
}

func TestGone(t *testing.T) {
	t.Parallel()
	for p, want := range map[Process]bool{
		{State: 'Z', threads: 1}: true,
		{State: 'X'}:             true,
		{State: 'Z', threads: 4}: false, // its first thread has ended, others run
		{State: 'D', threads: 1}: false,
		{State: 'T', threads: 1}: false,
	} {
		if p.Gone() != want {
			t.Errorf("%c with %d threads: gone=%v", p.State, p.threads, !want)
		}
	}
}

func TestBelow(t *testing.T) {
	t.Parallel()
	all := []Process{{PID: 2, Parent: 1}, {PID: 5, Parent: 4}, {PID: 3, Parent: 2}, {PID: 4, Parent: 3},
		{PID: 6, Parent: 1}, {PID: 9, Parent: 9}}
	var got []int
	for _, p := range Below(all, func(p Process) bool { return p.PID == 3 || p.PID == 4 || p.PID == 9 }) {
		got = append(got, p.PID)
	}
	if diff := cmp.Diff([]int{3, 4, 9, 5}, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseHandling(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]handling{
		"SigBlk:\t0000000000004000\nSigIgn:\t0000000000000000\nSigCgt:\t0000000000000000\n": ByDefault,
		"SigIgn:\t0000000000000000\nSigCgt:\t0000000000004000\n":                            Caught,
		"SigIgn:\t0000000000004000\nSigCgt:\t0000000000000002\n":                            Ignored,
		// 14 and 16
		"SigIgn:\t0000000000002000\nSigCgt:\t0000000000008000\n": ByDefault,
		"": ByDefault,
	} {
		if got := parseHandling(status, syscall.SIGTERM); got != want {
			t.Errorf("%q: %v, want %v", status, got, want)
		}
	}
}

func TestCgroupDir(t *testing.T) {
	t.Parallel()
	const v1 = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n32 31 0:29 / /sys/fs/cgroup/cpu rw - " +
		"cgroup cgroup rw,cpu\n"
	for _, c := range []struct{ name, self, mounts, want string }{
		{"v2", "0::/user.slice/a.service\n",
			"25 20 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n",
			"/sys/fs/cgroup/user.slice/a.service"},
		{"hybrid", "2:cpu:/x\n0::/\n", v1 + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			"/sys/fs/cgroup/unified"},
		{"mounted from below", "0::/docker/ab/job\n",
			"25 20 0:22 /docker/ab /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "/sys/fs/cgroup/job"},
		{"not below the mount", "0::/other\n",
			"25 20 0:22 /docker/ab /sys/fs/cgroup ro - cgroup2 cgroup rw\n", ""},
		{"above the namespace", "0::/../x\n", "25 20 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", ""},
		{"v1 only", "2:cpu:/x\n", v1, ""},
		{"garbage", "x", "y", ""},
	} {
		if got := cgroupDir(c.self, c.mounts); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestOOMKills(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	below := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(below, 0o700); err != nil {
		t.Fatal(err)
	}
	if n := OOMKills(below); n != -1 {
		t.Errorf("%d where no process counts", n)
	}
	if err := os.WriteFile(filepath.Join(dir, "memory.events"),
		[]byte("low 0\noom 5\noom_kill 3\noom_group_kill 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := OOMKills(below); n != 3 {
		t.Errorf("%d, want 3", n)
	}
}

// The memory controller of v1 is found where v2 has none.
func TestMemoryDirOfAHybrid(t *testing.T) {
	t.Parallel()
	const self = "9:name=systemd:/\n4:cpu,memory:/job/1\n1:cpuset:/\n0::/\n"
	const mounts = "30 20 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n" +
		"33 25 0:28 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n" +
		"34 25 0:29 /job /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,cpu,memory\n"
	if got := memoryDir(self, mounts); got != "/sys/fs/cgroup/memory/1" {
		t.Error(got)
	}
	for _, c := range [][2]string{{"0::/\n", mounts},
		{self, "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"}, {"", ""}} {
		if got := memoryDir(c[0], c[1]); got != "" {
			t.Errorf("%q: %s", c, got)
		}
	}
}
