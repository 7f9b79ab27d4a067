package peer

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/membership"
)

// process is another agent, in a process of its own.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	out   *bufio.Scanner
	ref   membership.Ref
}

func start(t *testing.T, node, watch string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "PEER_TEST_ROLE=agent", "PEER_TEST_NODE="+node, "PEER_TEST_WATCH="+watch)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, stdin: in, out: bufio.NewScanner(out)}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	if !p.out.Scan() {
		t.Fatal("it did not start")
	}
	p.ref = membership.Ref{Node: node, Incarnation: membership.Incarnation(node + "1"), Address: p.out.Text()}
	return p
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	if s != syscall.SIGSTOP {
		return
	}
	var ws syscall.WaitStatus // it stops in its own time
	if _, err := syscall.Wait4(p.cmd.Process.Pid, &ws, syscall.WUNTRACED, nil); err != nil || !ws.Stopped() {
		t.Fatalf("not stopped: %v, %v", ws, err)
	}
}

// counted counts the answers that pass a Link.
type counted struct {
	membership.Link
	n    atomic.Int64
	more chan struct{}
}

func (c *counted) Follow(
	ctx context.Context, to membership.Ref, beats <-chan struct{}, heard func(membership.Answer),
) membership.Answer {
	return c.Link.Follow(ctx, to, beats, func(a membership.Answer) {
		heard(a)
		c.n.Add(1)
		select {
		case c.more <- struct{}{}:
		default:
		}
	})
}

// watching is a watcher with the channel of its signals.
type watching struct {
	*membership.Watcher
	signals chan membership.Signal
}

func newWatching(l membership.Link) watching {
	signals := make(chan membership.Signal)
	return watching{membership.NewWatcher(l, membership.DefaultBeats(), signals), signals}
}

// watch watches refs with the real times, and returns when each answered a few times.
func watch(t *testing.T, refs ...membership.Ref) watching {
	t.Helper()
	c, err := Dial(secret, newAgent("w", "w1").self())
	if err != nil {
		t.Fatal(err)
	}
	link := &counted{Link: c, more: make(chan struct{}, 1)}
	w := newWatching(link)
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { w.Run(ctx) })
	t.Cleanup(func() { cancel(); run.Wait(); c.Close() })
	w.Set(refs)
	for link.n.Load() < int64(3*len(refs)) {
		select {
		case <-link.more:
		case s := <-w.signals:
			t.Logf("before anything happened: %+v", s)
		}
	}
	return w
}

func TestKilledProcessIsRefused(t *testing.T) {
	b, c := start(t, "b", ""), start(t, "c", "")
	w := watch(t, b.ref, c.ref)
	at := time.Now()
	b.signal(t, syscall.SIGKILL)
	s := until(t, w, b.ref, membership.ConnectionClosed)
	t.Logf("seen after %s", time.Since(at))
	if s.Answer.Kind != membership.Refused {
		t.Errorf("%+v", s)
	}
	if !w.Holds(b.ref) {
		t.Error("holds nothing")
	}
}

// until waits for a signal. Others may come before it: on a busy machine any agent is silent for a
// second.
func until(t *testing.T, w watching, ref membership.Ref, sign membership.Sign) membership.Signal {
	t.Helper()
	for {
		s := <-w.signals
		if s.Ref == ref && s.Sign == sign {
			return s
		}
		t.Logf("meanwhile %s: %q %s", s.Node, s.Sign, s.Answer.Kind)
	}
}

func TestStoppedProcessIsSilentAndClearedAndKilled(t *testing.T) {
	b, c := start(t, "b", ""), start(t, "c", "")
	w := watch(t, b.ref, c.ref)
	for range 2 {
		at := time.Now()
		b.signal(t, syscall.SIGSTOP)
		if s := until(t, w, b.ref, membership.Silent); s.Silent < 600*time.Millisecond {
			t.Errorf("stopped: %+v", s)
		}
		t.Logf("seen after %s", time.Since(at))
		b.signal(t, syscall.SIGCONT)
		until(t, w, b.ref, "")
	}
	b.signal(t, syscall.SIGSTOP)
	until(t, w, b.ref, membership.Silent)
	b.signal(t, syscall.SIGKILL)
	if s := until(t, w, b.ref, membership.ConnectionClosed); s.Answer.Kind != membership.Refused {
		t.Errorf("killed while stopped: %+v", s)
	}
}

// TestStoppedWatcherAccusesNoNode freezes the watcher in the one moment in which a naive one
// wakes up with a wrong verdict: while a dial of its own is under way.
func TestStoppedWatcherAccusesNoNode(t *testing.T) {
	a := newAgent("a", "a1").serve(t, secret, defaultLimits())
	dials, answers := make(chan struct{}, 1000), make(chan struct{}, 1000)
	via := speaker(t, func(c net.Conn) {
		dials <- struct{}{}
		through, err := net.Dial("tcp", a.srv.Addr())
		if err != nil {
			t.Error(err)
			return
		}
		var up sync.WaitGroup
		up.Go(func() { io.Copy(through, c); through.Close() })
		buf := make([]byte, 4096)
		for {
			n, err := through.Read(buf)
			if err != nil {
				break
			}
			answers <- struct{}{}
			if _, err := c.Write(buf[:n]); err != nil {
				break
			}
		}
		c.Close()
		through.Close()
		up.Wait()
	})
	w := start(t, "w", via.Address)
	<-dials
	for range 5 {
		<-answers
	}
	a.change(func(h *Hello) { h.Stalled = true })
	<-dials // it doubts us
	w.signal(t, syscall.SIGSTOP)
	a.change(func(h *Hello) { h.Stalled = false })
	<-time.After(2 * time.Second) // how long it is frozen
	for len(answers) > 0 {
		<-answers
	}
	w.signal(t, syscall.SIGCONT)
	for range 10 {
		<-answers
	}
	w.stdin.Close()
	for w.out.Scan() && w.out.Text() != "end" {
		if strings.HasPrefix(w.out.Text(), "signal") {
			t.Errorf("it was frozen itself, and says %s", w.out.Text())
		}
	}
}

// TestRing lets many agents watch each other, and one of them end.
func TestRing(t *testing.T) {
	const n = 24
	agents := make([]*agent, n)
	watchers := make([]watching, n)
	ring := make([]membership.Ref, n)
	for i := range agents {
		name := string(rune('a' + i))
		a := newAgent(name, name+"1")
		a.doubts = func(r membership.Ref) bool { return watchers[i].Holds(r) }
		agents[i] = a.serve(t, secret, defaultLimits())
		ring[i] = a.ref()
		watchers[i] = newWatching(a.client(t, secret))
	}
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	defer func() { cancel(); run.Wait() }()
	for i, w := range watchers {
		run.Go(func() { w.Run(ctx) })
		w.Set(membership.WatchTargets(ring, ring[i], 2, func(membership.Ref) bool { return false }))
	}
	// Every listener has the two streams of its successors.
	for _, a := range agents {
		for streamsOf(a) != 2 {
			if t.Context().Err() != nil {
				t.Fatal("not all are watched")
			}
		}
	}
	closeServer(t, agents[5].srv)
	for _, i := range []int{6, 7} {
		until(t, watchers[i], ring[5], membership.ConnectionClosed)
		if holds, err := agents[0].client(t, secret).Ask(t.Context(), ring[i], ring[5]); err != nil || !holds {
			t.Errorf("%s, asked, holds it: %v, %v", ring[i].Node, holds, err)
		}
	}
	for i, w := range watchers {
		if i != 6 && i != 7 && w.Holds(ring[5]) {
			t.Errorf("%s holds something against one that it does not watch", ring[i].Node)
		}
	}
}

func streamsOf(a *agent) int {
	a.srv.gate.mu.Lock()
	defer a.srv.gate.mu.Unlock()
	return a.srv.gate.count[streams]
}
