package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/elasticd/elastic/pkg/history"
)

// link says how a machine's connection to the bridge delays and drops frames, in each direction.
type link struct {
	delay time.Duration
	loss  float64
}

// lossy replaces the connection of a machine to the bridge. Frames then pass through this process.
func (l *testbed) lossy(name string, k link) {
	l.t.Helper()
	i := 1 + slices.Index(l.names, name)
	here, there := fmt.Sprint("here", i), fmt.Sprint("there", i)
	a, b := l.tap(here), l.tap(there)
	l.ip("-n", l.ns(name), "link", "del", "eth0")
	l.ip("-n", l.ns("switch"), "link", "set", here, "master", "bridge", "up")
	l.ip("-n", l.ns("switch"), "link", "set", there, "netns", l.ns(name), "name", "eth0")
	l.ip("-n", l.ns(name), "address", "add", l.addr[name]+"/24", "dev", "eth0")
	l.ip("-n", l.ns(name), "link", "set", "eth0", "up")
	go k.carry(a, b)
	go k.carry(b, a)
}

// tap makes a device in the namespace of the bridge. This process has its other end.
func (l *testbed) tap(name string) *os.File {
	l.t.Helper()
	made := make(chan *os.File)
	go func() {
		defer close(made)
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine, in its namespace
		ns, err := os.Open("/run/netns/" + l.ns("switch"))
		if err != nil {
			return
		}
		defer ns.Close()
		if unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET) != nil {
			return
		}
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return
		}
		req, err := unix.NewIfreq(name)
		if err != nil {
			return
		}
		req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		if unix.IoctlIfreq(fd, unix.TUNSETIFF, req) == nil {
			made <- os.NewFile(uintptr(fd), name)
		}
	}()
	f, ok := <-made
	if !ok {
		l.t.Fatal("these tests make network devices: run them as root, with /dev/net/tun")
	}
	l.t.Cleanup(func() { f.Close() })
	return f
}

// carry passes frames on until a device is closed.
func (k link) carry(from, to *os.File) {
	type frame struct {
		bytes []byte
		due   time.Time
	}
	under := make(chan frame, 10_000)
	go func() {
		for f := range under {
			time.Sleep(time.Until(f.due))
			_, _ = to.Write(f.bytes) // a device that is down takes nothing
		}
	}()
	defer close(under)
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if rand.Float64() >= k.loss {
			under <- frame{slices.Clone(b[:n]), time.Now().Add(k.delay)}
		}
	}
}

// Both processors are busy. Frames between nodes arrive 200 ms late, and one in twenty is lost.
// Agents of a job of four nodes, and of a job of two, are frozen for up to half a second. No node
// is lost. The suspicions are counted. COUNT is the number of minutes. The test is not parallel, because
// it would slow down the others.
func TestPausesOnALossyNetworkAreNoLoss(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	for range runtime.NumCPU() {
		busy := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
		if err := busy.Start(); err != nil {
			t.Fatal(err)
		}
		defer busy.Wait()
	}
	defer cancel()
	t.Run("jobs", func(t *testing.T) {
		for _, names := range [][]string{{"a", "b", "c", "d"}, {"a", "b"}} {
			t.Run(fmt.Sprint(len(names)), func(t *testing.T) {
				t.Parallel()
				pausesOnALossyNetwork(t, names)
			})
		}
	})
}

func pausesOnALossyNetwork(t *testing.T, names []string) {
	l := newTestbed(t, names...)
	for _, name := range l.names {
		l.lossy(name, link{100 * time.Millisecond, 0.025})
	}
	w := l.audit("x")
	// COUNT may be large: the workers outlast it
	l.all(fmt.Sprintf("--np=%d", len(names)), "--job-id=x", "sh", "-c",
		"echo $$ >worker.$ELASTIC_NODE; exec sleep 1d")
	l.running("x", 1, len(names))
	from, pauses := w.mark(t), 0
	end := time.Now().Add(endure(t, 20*time.Second, time.Duration(soak(t))*time.Minute))
	for time.Now().Before(end) {
		time.Sleep(rand.N(3 * time.Second))
		agent := l.agents[l.names[rand.N(len(l.names))]]
		if err := agent.kill(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rand.N(500 * time.Millisecond))
		if err := agent.kill(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		pauses++
	}
	w.mark(t)
	if lost := w.since(from, history.NodeLost, history.WorldProposed); len(lost) > 0 {
		t.Errorf("%v", lost)
	}
	t.Logf("%d pauses, %d suspicions of a node by another", pauses, len(w.since(from, history.NodeSuspected)))
	w.holds(t)
}
