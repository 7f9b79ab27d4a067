package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// succeeds runs a command of elasticd.
func succeeds(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), elasticd, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// backedUp returns a directory with a backup B of a server that has the key k.
func backedUp(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	at := "http://" + address(t)
	s := start(t, dir, "--name=old", "--insecure", "--data-dir="+filepath.Join(dir, "old"),
		"--listen-client-urls="+at)
	s.ready(t, at)
	c := client(t, at)
	if _, err := c.Put(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	succeeds(t, dir, "backup", "--data-dir="+filepath.Join(dir, "old"), "B")
	if _, err := c.Put(t.Context(), "k", "later"); err != nil {
		t.Fatal(err)
	}
	s.stop(t, syscall.SIGTERM)
	return dir
}

// has checks what a restored server has.
func has(t *testing.T, endpoint string) (cluster uint64) {
	t.Helper()
	r, err := client(t, endpoint).Get(t.Context(), "k")
	if err != nil || len(r.Kvs) != 1 || string(r.Kvs[0].Value) != "v" {
		t.Fatalf("%v, %v: want v, as it was when the backup was written", r, err)
	}
	return r.Header.ClusterId
}

// A single member that is restored has what it had, and agents see that it is another cluster.
func TestRestoreOne(t *testing.T) {
	dir := backedUp(t)
	seen := map[uint64]bool{}
	for _, name := range []string{"a", "b"} {
		data := filepath.Join(dir, name)
		succeeds(t, dir, "restore", "--name="+name, "--data-dir="+data, "B")
		for range 2 { // it starts more than once
			s := start(t, dir, "--name="+name, "--data-dir="+data)
			s.ready(t, "unix://"+data+"/clients.sock")
			seen[has(t, "unix://"+data+"/clients.sock")] = true
			s.stop(t, syscall.SIGTERM)
		}
	}
	if len(seen) != 2 {
		t.Errorf("two restores are %d clusters", len(seen))
	}
}

// The members of a cluster are restored from one file, each on its own.
func TestRestoreTwo(t *testing.T) {
	dir := backedUp(t)
	peers := []string{"http://" + address(t), "http://" + address(t)}
	all := "--initial-cluster=a=" + peers[0] + ",b=" + peers[1]
	var servers []*server
	var clients []string
	for i, name := range []string{"a", "b"} {
		succeeds(t, dir, "restore", "--name="+name, all, "B")
		at := "http://" + address(t)
		clients = append(clients, at)
		servers = append(servers, start(t, dir, "--name="+name, all, "--insecure", "--http=",
			"--listen-peer-urls="+peers[i], "--listen-client-urls="+at))
	}
	for i, s := range servers {
		s.ready(t, clients[i])
		has(t, clients[i])
	}
	for _, s := range servers {
		s.stop(t, syscall.SIGTERM)
	}
}

func TestBadBackups(t *testing.T) {
	dir := backedUp(t)
	whole, err := os.ReadFile(filepath.Join(dir, "B"))
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte(nil), whole...)
	flipped[len(flipped)/2] ^= 1
	for name, bytes := range map[string][]byte{"cut": whole[:len(whole)-100], "flipped": flipped, "none": {}} {
		if err := os.WriteFile(filepath.Join(dir, name), bytes, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"restore", "--name=z", "cut"}, 1, "restore cut: "},
		{[]string{"restore", "--name=z", "none"}, 1, "restore none: "},
		{[]string{"restore", "--name=z", "flipped"}, 1, "sha256"},
		{[]string{"restore", "--name=z", "absent"}, 1, "no such file"},
		{[]string{"restore", "--data-dir=old", "B"}, 1, "is not empty [E-DATA-DIR]"},
		{[]string{"restore", "--name=z", "--initial-cluster=a=http://h:1", "B"}, 2, "does not name this member"},
		{[]string{"restore", "B", "--name=z"}, 2, "one FILE, after the flags"},
		{[]string{"backup"}, 2, "one FILE, after the flags"},
		{[]string{"backup", "--endpoint=http://" + address(t), "flipped"}, 1, "does not answer"},
		{[]string{"backup", "--endpoint=http://" + address(t), "--cacert=absent", "C"}, 2, "absent"},
	} {
		status, stderr := fails(t, dir, c.args...)
		if status != c.status || !strings.Contains(stderr, c.says) || !strings.Contains(stderr, "fix: ") {
			t.Errorf("%v ends with %d, want %d and %q:\n%s", c.args, status, c.status, c.says, stderr)
		}
	}
	for _, left := range []string{"z.etcd", "C"} {
		if _, err := os.Stat(filepath.Join(dir, left)); err == nil {
			t.Errorf("%s was made", left)
		}
	}
	if now, err := os.ReadFile(filepath.Join(dir, "flipped")); err != nil || string(now) != string(flipped) {
		t.Errorf("a backup that failed changed its file: %v", err)
	}
	if list, _ := filepath.Glob(filepath.Join(dir, "*restore-*")); len(list) > 0 {
		t.Errorf("left behind: %v", list)
	}
}
