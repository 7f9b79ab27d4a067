package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/internal/local"
	"github.com/elasticd/elastic/internal/problem"
)

// runAsCommand makes this test binary a command that calls Ensure and prints
// what it returned: the tests need processes that a shell starts and kills.
const runAsCommand = "LOCAL_TEST_RUNTIME"

var elasticd string // built once, set by TestMain alone

type answer struct {
	At      local.Endpoint
	Started local.Started
	Err     string
}

func TestMain(m *testing.M) {
	if given := os.Getenv(runAsCommand); given != "" {
		var r local.Runtime
		if err := json.Unmarshal([]byte(given), &r); err != nil {
			panic(err)
		}
		at, s, err := local.Ensure(context.Background(), r)
		json.NewEncoder(os.Stdout).Encode(answer{at, s, fmt.Sprint(err)})
		return
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "elasticd")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		elasticd = filepath.Join(dir, "elasticd")
		if out, err := exec.Command("go", "build", "-o", elasticd, "../../cmd/elasticd").
			CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build elasticd: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// place makes directories for a local server, and ends whatever server the
// test leaves there.
func place(t *testing.T) local.Runtime {
	t.Helper()
	dir, err := os.MkdirTemp("", "local") // short: the path of a socket has a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := local.Runtime{Dir: filepath.Join(dir, "run"), Data: filepath.Join(dir, "state", "elasticd"),
		Idle: time.Minute, Bin: elasticd}
	t.Cleanup(func() { end(t, r, syscall.SIGTERM) })
	return r
}

// end kills the server and waits until it is gone.
func end(t *testing.T, r local.Runtime, sig syscall.Signal) {
	t.Helper()
	h := hint(r)
	if h.PID == 0 {
		return
	}
	fd, err := unix.PidfdOpen(h.PID, 0)
	if err != nil {
		return // it has ended already
	}
	defer unix.Close(fd)
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", h.PID)); err != nil || exe != elasticd {
		return // the pid belongs to another process by now
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil {
		t.Errorf("end the server: %v", err)
	}
	if !gone(fd, time.Minute) {
		t.Errorf("the server did not end within a minute of signal %v", sig)
	}
}

func gone(pidfd int, limit time.Duration) bool {
	for until := time.Now().Add(limit); time.Now().Before(until); {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}},
			int(time.Until(until).Milliseconds()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err == nil && n == 1
	}
	return false
}

func hint(r local.Runtime) (h local.Hint) {
	if b, err := os.ReadFile(filepath.Join(r.Dir, "elasticd.json")); err == nil {
		json.Unmarshal(b, &h)
	}
	return h
}

func ensure(t *testing.T, r local.Runtime) (local.Endpoint, local.Started) {
	t.Helper()
	at, s, err := local.Ensure(t.Context(), r)
	if err != nil {
		if p, ok := errors.AsType[*problem.Error](err); ok {
			t.Log(p.Details["log"])
		}
		t.Fatalf("ensure: %v", err)
	}
	return at, s
}

func command(t *testing.T, r local.Runtime) *exec.Cmd {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), runAsCommand+"="+string(b))
	return cmd
}

func client(t *testing.T, at local.Endpoint) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{string(at)}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestOfManyAtOnceOneStarts(t *testing.T) {
	r := place(t)
	var mu sync.Mutex
	var answers []answer
	var wg sync.WaitGroup
	for range 10 {
		cmd := command(t, r)
		wg.Go(func() {
			out, err := cmd.Output()
			var a answer
			if err == nil {
				err = json.Unmarshal(out, &a)
			}
			if err != nil {
				t.Errorf("ensure in a process: %v: %s", err, out)
			}
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, a)
		})
	}
	wg.Wait()
	starters := 0
	for _, a := range answers {
		if a.Err != "<nil>" || a.At != local.Endpoint("unix://"+r.Socket()) {
			t.Errorf("answer %+v", a)
		}
		if a.Started.PID != 0 {
			starters++
			if h := hint(r); h.PID != a.Started.PID {
				t.Errorf("started %d, running %d", a.Started.PID, h.PID)
			}
		}
	}
	if starters != 1 {
		t.Errorf("%d processes started a server, want 1", starters)
	}
}

func TestServerIsDetached(t *testing.T) {
	r := place(t)
	out, err := command(t, r).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", hint(r).PID))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	f := strings.Fields(rest) // state ppid pgrp session
	own, _ := unix.Getsid(0)
	if f[1] == strconv.Itoa(os.Getpid()) || f[2] == strconv.Itoa(unix.Getpgrp()) ||
		f[3] == strconv.Itoa(own) {
		t.Errorf("parent %s, group %s, session %s; the test has %d, %d, %d",
			f[1], f[2], f[3], os.Getpid(), unix.Getpgrp(), own)
	}
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", hint(r).PID))
	if err != nil || strings.Contains(string(env), runAsCommand) {
		t.Errorf("the server has the environment of its starter: %q, %v", env, err)
	}
}

// A program that reads the output of a command must see its end when the command ends.
func TestServerHoldsNoPipe(t *testing.T) {
	r := place(t)
	cmd := command(t, r)
	read := func() (io.Reader, *os.File) {
		pr, pw, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { pr.Close(); pw.Close() })
		pr.SetReadDeadline(time.Now().Add(time.Minute))
		return pr, pw
	}
	out, outW := read()
	extra, extraW := read() // as in "elastic run 9>&1", far above the descriptors that are handed on
	cmd.Stdout, cmd.Stderr = outW, outW
	for range 10 {
		cmd.ExtraFiles = append(cmd.ExtraFiles, extraW)
	}
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	outW.Close()
	extraW.Close()
	for name, pipe := range map[string]io.Reader{"stdout": out, "an inherited pipe": extra} {
		if _, err := io.ReadAll(pipe); err != nil {
			t.Errorf("%s is still open in the server: %v", name, err)
		}
	}
	if _, err := local.Find(t.Context(), r); err != nil {
		t.Fatalf("the server did not outlive its starter: %v", err)
	}
}

func TestKilledServerComesBackOnItsData(t *testing.T) {
	r := place(t)
	at, first := ensure(t, r)
	if _, err := client(t, at).Put(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	put, err := client(t, at).Get(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	end(t, r, syscall.SIGKILL)
	if _, err := local.Find(t.Context(), r); !errors.Is(err, local.ErrNone) {
		t.Fatalf("find after the kill: %v", err)
	}
	if !r.HasData() {
		t.Error("no data after the kill")
	}
	again, second := ensure(t, r)
	if second.PID == 0 || second.PID == first.PID || again != at {
		t.Errorf("first %+v at %s, second %+v at %s", first, at, second, again)
	}
	got, err := client(t, again).Get(t.Context(), "k")
	if err != nil || len(got.Kvs) != 1 || got.Kvs[0].ModRevision != put.Kvs[0].ModRevision ||
		got.Header.Revision < put.Header.Revision || got.Header.ClusterId != put.Header.ClusterId {
		t.Errorf("after the kill: %v, %v; put: %v", got, err, put)
	}
}

func TestIdleServerEnds(t *testing.T) {
	r := place(t)
	r.Idle = 300 * time.Millisecond
	at, s := ensure(t, r)
	c := client(t, at)
	if _, err := c.Put(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(s.PID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if gone(fd, 4*r.Idle) {
		t.Fatal("ended under a client")
	}
	lease, err := c.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if gone(fd, 4*r.Idle) {
		t.Fatal("ended under a lease")
	}
	c = client(t, at)
	if _, err := c.Revoke(t.Context(), lease.ID); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if !gone(fd, time.Minute) {
		t.Fatal("idle, and did not end")
	}
	if left, _ := filepath.Glob(filepath.Join(r.Dir, "etcd*")); len(left) > 0 || hint(r).PID != 0 {
		t.Errorf("left behind: %v, %+v", left, hint(r))
	}
	if at, _ := ensure(t, r); !r.HasData() || at == "" {
		t.Error("no server after the idle one")
	}
}

func TestSocketTakenAwayEndsTheServer(t *testing.T) {
	r := place(t)
	_, s := ensure(t, r)
	fd, err := unix.PidfdOpen(s.PID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := os.Remove(r.Socket()); err != nil {
		t.Fatal(err)
	}
	if !gone(fd, time.Minute) {
		t.Fatal("a server that cannot be found goes on")
	}
	ensure(t, r)
}

func TestDataLeadsToTheServer(t *testing.T) {
	r, other := place(t), place(t)
	at, _ := ensure(t, r)

	sameData := r
	sameData.Dir = other.Dir
	if found, s := ensure(t, sameData); found != at || s.PID != 0 {
		t.Errorf("another runtime directory: %s, %+v; want %s", found, s, at)
	}
	sameRuntime := r
	sameRuntime.Data = other.Data
	if found, s := ensure(t, sameRuntime); found != at || s.PID != 0 {
		t.Errorf("another state directory: %s, %+v; want %s", found, s, at)
	}

	// The socket is by now of a server on other data: the name in the old data leads nowhere.
	end(t, r, syscall.SIGKILL)
	ensure(t, sameRuntime)
	if found, err := local.Find(t.Context(), sameData); !errors.Is(err, local.ErrNone) {
		t.Errorf("found %s, %v, a server on other data", found, err)
	}
}

// A starter that is killed leaves the start to the server itself: no command starts a second one
// meanwhile.
func TestStarterKilled(t *testing.T) {
	r := place(t)
	if err := os.MkdirAll(r.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	identity := filepath.Join(r.Data, "elasticd.json") // the server reads it before it listens
	if err := unix.Mkfifo(identity, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := command(t, r)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gate, err := os.OpenFile(identity, os.O_WRONLY, 0) // opens when the server reads
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()

	second := make(chan local.Started, 1)
	go func() {
		_, s, err := local.Ensure(t.Context(), r)
		if err != nil {
			t.Errorf("ensure while another one starts: %v", err)
		}
		second <- s
	}()
	select {
	case s := <-second:
		t.Errorf("did not wait for the start that is under way: %+v", s)
	case <-time.After(500 * time.Millisecond):
	}
	fmt.Fprintln(gate, `{"format":1,"name":"local","token":"t"}`)
	gate.Close()
	if s := <-second; s.PID != 0 {
		t.Errorf("a second server was started: %+v", s)
	}
}

func TestStartFails(t *testing.T) {
	r := place(t)
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho no disk left\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second does not repeat the first one's log
		r.Bin = broken
		_, _, err := local.Ensure(t.Context(), r)
		p, ok := errors.AsType[*problem.Error](err)
		if !ok || p.Code != problem.LocalStart || !slices.Equal(p.Details["log"].([]string), []string{"no disk left"}) ||
			!strings.HasSuffix(p.Why, "; it ends: no disk left") {
			t.Fatalf("error %v: %+v", err, p)
		}
	}
	r.Bin = elasticd
	ensure(t, r)
}

// What elasticd refuses, with the reason and what to do, is said at once and in its words.
func TestRefusalOfTheServerIsPassedOn(t *testing.T) {
	r := place(t)
	ensure(t, r)
	end(t, r, syscall.SIGTERM)
	wal := filepath.Join(r.Data, "member", "wal")
	if err := os.RemoveAll(wal); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, _, err := local.Ensure(t.Context(), r)
		p, ok := errors.AsType[*problem.Error](err)
		if !ok || p.Code != problem.LocalStart {
			t.Fatalf("error %v", err)
		}
		if !strings.Contains(p.Message, wal) || strings.Contains(p.Message, "[") || p.Why == "" ||
			!strings.Contains(p.Fix, wal) {
			t.Errorf("it says %+v", p)
		}
	}
	if err := os.RemoveAll(filepath.Join(r.Data, "member")); err != nil {
		t.Fatal(err)
	}
	ensure(t, r)
}
