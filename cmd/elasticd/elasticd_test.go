package main_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

var elasticd string // built once, set by TestMain alone

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "elasticd")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		elasticd = filepath.Join(dir, "elasticd")
		if out, err := exec.Command("go", "build", "-o", elasticd, ".").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build elasticd: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// address is one below the range that the kernel gives out by itself.
func address(t *testing.T) string {
	t.Helper()
	for range 100 {
		a := fmt.Sprintf("127.0.0.1:%d", 10000+rand.N(5000))
		if l, err := net.Listen("tcp", a); err == nil {
			l.Close()
			return a
		}
	}
	t.Fatal("no free port")
	return ""
}

// server is an elasticd that runs.
type server struct {
	cmd  *exec.Cmd
	said *bufio.Reader
	all  bytes.Buffer // read by stop alone, after the end
}

func start(t *testing.T, dir string, flags ...string) *server {
	t.Helper()
	s := &server{cmd: exec.CommandContext(t.Context(), elasticd, flags...)}
	s.cmd.Dir = dir
	pipe, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.said = bufio.NewReader(io.TeeReader(pipe, &s.all))
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	limit := time.AfterFunc(2*time.Minute, func() { s.cmd.Process.Kill() })
	t.Cleanup(func() {
		limit.Stop()
		if s.cmd.ProcessState == nil {
			s.cmd.Process.Kill()
			s.cmd.Wait()
		}
	})
	return s
}

// ready waits for the line that says so.
func (s *server) ready(t *testing.T, clients string) {
	t.Helper()
	want := "elasticd: ready: clients " + clients + "\n"
	for line := ""; line != want; {
		var err error
		if line, err = s.said.ReadString('\n'); err != nil {
			t.Fatalf("%v, and it did not say %q:\n%s", err, want, &s.all)
		}
	}
}

func (s *server) stop(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, s.said)
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("after %v: %v\n%s", sig, err, &s.all)
	}
}

// fails runs an elasticd that must not come up.
func fails(t *testing.T, dir string, flags ...string) (status int, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), elasticd, flags...)
	cmd.Dir = dir
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	timer := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("%v: %v\n%s", flags, err, &errs)
	}
	if out.Len() > 0 {
		t.Errorf("%v: words on stdout: %s", flags, &out)
	}
	return exit.ExitCode(), errs.String()
}

func client(t *testing.T, endpoints ...string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestOneMember(t *testing.T) {
	dir, clients, web := t.TempDir(), address(t), address(t)
	flags := []string{"--name=a", "--insecure", "--listen_client_urls=http://" + clients,
		"--listen-peer-urls=http://" +
			address(t), "--http", web}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		s := start(t, dir, flags...)
		s.ready(t, "http://"+clients)
		for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
			r, err := http.Get("http://" + web + path)
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			if r.StatusCode != 200 {
				t.Errorf("%s: %s", path, r.Status)
			}
		}
		if _, err := client(t, clients).Put(t.Context(), "k", "v"); err != nil {
			t.Error(err)
		}
		s.stop(t, sig)
		if strings.Count(s.all.String(), "\n") != 1 {
			t.Errorf("said more than one line:\n%s", &s.all)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "a.etcd", "member")); err != nil {
		t.Error(err)
	}
}

func TestRefusals(t *testing.T) {
	dir, clients, web := t.TempDir(), address(t), address(t)
	data := filepath.Join(dir, "data")
	s := start(t, dir, "--name=a", "--insecure", "--data-dir="+data, "--listen-client-urls=http://"+clients,
		"--listen-peer-urls=http://"+address(t), "--http="+web)
	s.ready(t, "http://"+clients)
	quiet := []string{"--insecure", "--listen-client-urls=http://" + address(t),
		"--listen-peer-urls=http://" +
			address(t), "--http="}
	for name, c := range map[string]struct {
		flags  []string
		status int
		says   []string
	}{
		"data in use": {append(quiet, "--data-dir="+data), 1,
			[]string{"[E-DATA-DIR]", fmt.Sprintf("process %d", s.cmd.Process.Pid), "why: ", "fix: "}},
		"port of clients": {[]string{"--insecure", "--listen-client-urls=http://" + clients, "--http="}, 1,
			[]string{"[E-LISTEN]", clients, "fix: "}},
		"port of http": {append(quiet, "--http="+web), 1, []string{"[E-LISTEN]", web}},
		"open to all users": {[]string{"--listen-client-urls=http://0.0.0.0:0"}, 1,
			[]string{"[E-LISTEN]", "--insecure"}},
		"open to this host": {[]string{"--listen-client-urls=http://127.0.0.1:0"}, 1,
			[]string{"[E-LISTEN]", "--insecure"}},
		"pages for all": {[]string{"--http=0.0.0.0:0"}, 1, []string{"[E-LISTEN]", "--insecure"}},
		"no directory":  {append(quiet, "--data-dir=/dev/null/x"), 1, []string{"[E-DATA-DIR]"}},
		"unknown flag":  {[]string{"--frobnicate"}, 2, []string{"frobnicate", "[E-USAGE]"}},
		"a word":        {[]string{"start"}, 2, []string{`"start"`, "[E-USAGE]"}},
		"a bad URL": {[]string{"--listen-client-urls=2379"}, 2,
			[]string{"--listen-client-urls=2379", "[E-USAGE]"}},
		"the name default":   {[]string{"--name=default"}, 2, []string{"[E-USAGE]"}},
		"an unknown state":   {[]string{"--initial-cluster-state=old"}, 2, []string{"[E-USAGE]"}},
		"a number is needed": {[]string{"--heartbeat-interval=fast"}, 2, []string{"[E-USAGE]"}},
	} {
		t.Run(name, func(t *testing.T) {
			status, stderr := fails(t, t.TempDir(), c.flags...)
			first, _, _ := strings.Cut(stderr, "\n")
			if status != c.status || !strings.HasPrefix(first, "error: ") || !strings.HasSuffix(first, "]") {
				t.Errorf("status %d, want %d\n%s", status, c.status, stderr)
			}
			for _, s := range c.says {
				if !strings.Contains(stderr, s) {
					t.Errorf("does not say %q:\n%s", s, stderr)
				}
			}
		})
	}
	s.stop(t, syscall.SIGTERM)
	if status, stderr := fails(t, dir, append(quiet, "--data-dir="+data, "--name=b")...); status != 1 ||
		!strings.Contains(stderr, "member a, this is b [E-DATA-DIR]") {
		t.Errorf("data of another member: %d\n%s", status, stderr)
	}
}

// Without flags a server is its user's alone: two sockets that no other user can open.
func TestDefaultIsPrivate(t *testing.T) {
	dir, err := os.MkdirTemp("", "private") // short: the path of a socket has a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	data := filepath.Join(dir, "a.etcd")
	for range 2 { // a killed server leaves its sockets
		s := start(t, dir, "--name=a")
		s.ready(t, "unix://"+data+"/clients.sock")
		for _, name := range []string{"clients.sock", "http.sock"} {
			st, err := os.Stat(filepath.Join(data, name))
			if err != nil || st.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: %v, %v", name, st, err)
			}
		}
		if st, err := os.Stat(data); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("data directory: %v, %v", st, err)
		}
		if _, err := client(t, "unix://"+data+"/clients.sock").Put(t.Context(), "k", "v"); err != nil {
			t.Error(err)
		}
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(data, "http.sock"))
		}
		web := &http.Client{Transport: &http.Transport{DialContext: dial}}
		r, err := web.Get("http://localhost/metrics")
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if listens := listening(t, s.cmd.Process.Pid); len(listens) > 0 {
			t.Errorf("it listens on TCP: %v", listens)
		}
		s.cmd.Process.Kill()
		s.cmd.Wait()
	}
}

// listening are the TCP sockets of a process in state LISTEN.
func listening(t *testing.T, pid int) (lines []string) {
	t.Helper()
	own := map[string]bool{}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
		if inode, ok := strings.CutPrefix(to, "socket:["); ok {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	for _, file := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, file))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(string(b), "\n") {
			if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" && own[f[9]] {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

func TestHelp(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), elasticd, "-h").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"--listen-client-urls", "--peer-trusted-ca-file", "--http", "--insecure"} {
		if !strings.Contains(string(out), flag) {
			t.Errorf("help without %s", flag)
		}
	}
	for _, hidden := range []string{"--local", "--ensured", "--idle"} {
		if strings.Contains(string(out), hidden) {
			t.Errorf("help shows %s", hidden)
		}
	}
}

func TestThreeMembers(t *testing.T) {
	type member struct{ name, clients, peers string }
	members := []member{{"a", address(t), address(t)}, {"b", address(t), address(t)},
		{"c", address(t), address(t)}}
	var all, endpoints []string
	for _, m := range members {
		all = append(all, m.name+"=http://"+m.peers)
		endpoints = append(endpoints, m.clients)
	}
	dir := t.TempDir()
	begin := func(m member) *server {
		return start(t, dir, "--insecure", "--name", m.name, "--listen-client-urls", "http://"+m.clients,
			"--listen-peer-urls", "http://"+m.peers,
			"--initial-cluster", strings.Join(all, ","), "--http=", "--heartbeat-interval=20")
	}
	servers := make([]*server, 3)
	for i, m := range members {
		servers[i] = begin(m)
	}
	for i, m := range members {
		servers[i].ready(t, "http://"+m.clients)
	}
	if _, err := client(t, endpoints...).Put(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	servers[0].cmd.Process.Kill()
	servers[0].cmd.Wait()
	c, limit := client(t, endpoints[1:]...), time.Now().Add(time.Minute)
	for { // what was under way when the leader died is answered with an error
		if _, err := c.Put(t.Context(), "k", "w"); err == nil {
			break
		} else if time.Now().After(limit) {
			t.Fatalf("two of three: %v", err)
		}
	}
	servers[0] = begin(members[0])
	servers[0].ready(t, "http://"+members[0].clients)
	if r, err := client(t, endpoints[0]).Get(t.Context(), "k"); err != nil || string(r.Kvs[0].Value) != "w" {
		t.Errorf("the member that came back: %v, %v", r, err)
	}
	for _, s := range servers {
		s.stop(t, syscall.SIGTERM)
	}
}
