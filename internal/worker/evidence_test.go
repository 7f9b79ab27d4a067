package worker

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/hang"
	"github.com/elasticd/elastic/internal/worker/proc"
)

// Workers of Python answer with their stack, by a thread or, where the interpreter stands still, by a signal.
// One that is stopped and one that is not Python have none, and all go on.
func TestLook(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("/usr/bin/python3"); err != nil {
		t.Fatal("python3 is needed: apt-get install python3")
	}
	s := shell(t, 4, `test $i = 3 && exec sleep 1000
exec /usr/bin/python3 -c '
import os, re, threading
print("up", flush=True)
def wait_for_ever():
    if os.environ["i"] == "1":
        re.match("(a+)+$", "a" * 64 + "b")
    threading.Event().wait()
wait_for_ever()'`)
	watch, err := filepath.Abs("../../python/watch")
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Env {
		s.Env[i] = hang.Tell(s.Env[i], filepath.Join(s.RunDir, strconv.Itoa(i)), watch)
	}
	s.Ranks = []int{4, 5, 6, 7}
	g := begin(t, s)
	for i := range 3 {
		said(t, s.Logs, i, "up")
	}
	signalPID(t, g.PIDs()[2], syscall.SIGSTOP)
	eventually(t, "the third worker is stopped", func() bool { return stateOfPID(g.PIDs()[2]) == 'T' })
	eventually(t, "the fourth worker sleeps", func() bool {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", g.PIDs()[3]))
		return string(name) == "sleep\n" && stateOfPID(g.PIDs()[3]) == 'S'
	})
	var all []hang.Evidence
	eventually(t, "the workers of Python answer", func() bool {
		all = g.Look(deadline(t))
		return strings.Contains(all[0].Stack, "in wait_for_ever") && strings.Contains(all[1].Stack, "in wait_for_ever")
	})
	if e := all[1]; e.Rank != 5 || e.LocalRank != 1 || !e.Working {
		t.Errorf("%+v", e)
	}
	if e := all[2]; e.State != "T" || e.Stack != "" {
		t.Errorf("%+v", e)
	}
	if e := all[3]; e.State != "S" || e.Stack != "" || e.Syscall == "" {
		t.Errorf("%+v", e)
	}
	for _, pid := range g.PIDs() {
		if p, ok := proc.Find(pid); !ok || p.Gone() {
			t.Errorf("a worker that was looked at has ended: %+v", p)
		}
	}
}

// What a worker and its children do shows in its pulse.
func TestPulses(t *testing.T) {
	t.Parallel()
	s := shell(t, 4, `echo up; read x <"$dir/go$i"
case $i in
0) sh -c 'while :; do :; done' ;;
1) while :; do echo line; sleep 0.01; done ;;
2) while :; do head -c 1000000 /dev/zero >"$dir/save"; sleep 0.01; done ;;
3) sleep 1000 ;;
esac`)
	for i := range s.Env {
		s.Env[i] = append(s.Env[i], "dir="+s.Dir)
	}
	for i := range 4 {
		if err := syscall.Mkfifo(fmt.Sprintf("%s/go%d", s.Dir, i), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g := begin(t, s)
	for i := range 4 {
		said(t, s.Logs, i, "up")
	}
	before := g.Pulses()
	for i := range 4 {
		if err := exec.Command("sh", "-c", `echo go >"$0"`, fmt.Sprintf("%s/go%d", s.Dir, i)).
			Run(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "three of four show signs of life", func() bool {
		now := g.Pulses()
		return now[0].CPU > before[0].CPU+100*time.Millisecond && now[1].Output > before[1].Output &&
			now[2].IO > before[2].IO+1000000
	})
	if now := g.Pulses(); now[3].Output != before[3].Output || now[3].CPU > before[3].CPU+
		100*time.Millisecond {
		t.Errorf("the one that sleeps: %+v, then %+v", before[3], now[3])
	}
}

// Bytes that a worker sends and receives are seen, whichever system call it uses.
func TestPulsesCountConnections(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	s := shell(t, 1, `exec bash -c 'exec 3<>/dev/tcp/127.0.0.1/`+port+`; echo up; exec sleep 1000'`)
	g := begin(t, s)
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	said(t, s.Logs, 0, "up")
	const some = 1000 // it waits in the buffer of the worker, which never reads
	if _, err := c.Write(make([]byte, some)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the connection of the worker has moved bytes", func() bool {
		var moved int64
		for _, n := range g.Pulses()[0].Sockets {
			moved += n
		}
		return moved >= some
	})
	if threads := g.Pulses()[0].Threads; len(threads) == 0 {
		t.Error("no threads")
	}
}

func stateOfPID(pid int) byte {
	p, _ := proc.Find(pid)
	return p.State
}
