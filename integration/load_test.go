package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/history"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// BenchmarkLoad measures a fleet with a real elasticd on one machine: the start, the loss of one
// and of many nodes, scaling, a restart of elasticd, and rest. Run it with `make bench-load`. NODES
// is the number of nodes, 1000 by default. LEASE_TTL is 30s by default. `elastic run` has 3s, but a
// thousand agents on one machine cannot renew such leases while all of them start. All agents are
// in one process and share the CPUs with elasticd, so the times are those of this machine, not of a
// cluster.
func BenchmarkLoad(b *testing.B) {
	n := 1000
	if v, err := strconv.Atoi(os.Getenv("NODES")); err == nil {
		n = v
	}
	ttl := 30 * time.Second
	if v, err := time.ParseDuration(os.Getenv("LEASE_TTL")); err == nil {
		ttl = v
	}
	for range b.N {
		load(b, n, ttl)
	}
}

func load(b *testing.B, n int, ttl time.Duration) {
	server := startElasticd(b)
	h := fleetOn(b, n, []string{server.client})
	h.ttl = ttl
	h.job.Limits = rendezvous.Limits{Min: 1, Max: n}
	h.job.Rules.LastCall = rendezvous.Seconds(5 * time.Minute) // no World before all are here
	p := newPulse(h, server)
	defer p.stop()

	p.during(fmt.Sprintf("%d agents come at once -> all workers started", n), "", func() {
		for i := range n {
			h.start(fmt.Sprintf("node%04d", i))
		}
		h.settles(0, n)
	})
	p.rest(20 * time.Second)
	p.during("1 lost -> all others' workers started", "proposed to started <= 1 s for 1,000", func() {
		g := h.newest()
		h.kill(h.member(n / 2))
		h.settles(g, n-1)
	})
	tenth := n / 10
	p.during(fmt.Sprintf("%d lost at once -> all others' workers started", tenth), "", func() {
		g := h.newest()
		h.kill(h.members(n/4, tenth)...)
		h.settles(g, n-1-tenth)
	})
	p.during(fmt.Sprintf("scaled to %d -> their workers started", n/2), "", func() {
		g := h.newest()
		h.scale(n / 2)
		h.settles(g, n/2)
	})
	before := h.newest()
	p.during("elasticd restarted -> it answers, and has renewed a lease of each", "", func() {
		server.restart()
		h.answers()
	})
	p.rest(10 * time.Second)
	if g := h.newest(); g != before {
		b.Errorf("generation %d runs after the restart of elasticd, %d before", g, before)
	}
}

// settles waits until n living agents have started the workers of the newest generation, which is
// after g.
func (h *fleet) settles(g schema.Generation, n int) {
	h.t.Helper()
	within(h.t, 5*time.Minute, fmt.Sprintf("%d agents train", n), func() error {
		newest, count := h.newest(), 0
		h.mu.Lock()
		for _, b := range h.all {
			if b.newest == newest && !b.isDead() {
				count++
			}
		}
		h.mu.Unlock()
		if newest <= g || count != n {
			return fmt.Errorf("%d have started workers of generation %d", count, newest)
		}
		return nil
	})
}

func (h *fleet) newest() (g schema.Generation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range h.all {
		g = max(g, b.newest)
	}
	return g
}

func (h *fleet) member(rank int) string { return h.members(rank, 1)[0] }

func (h *fleet) members(from, n int) (names []string) {
	s, err := rendezvous.Read(h.t.Context(), h.look, h.job.Name)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, m := range s.World.Members[from : from+n] {
		names = append(names, m.Node)
	}
	return names
}

// answers waits until the store answers and every living agent's registration is there.
func (h *fleet) answers() {
	h.t.Helper()
	within(h.t, 2*time.Minute, "elasticd answers", func() error {
		ctx, cancel := context.WithTimeout(h.t.Context(), time.Second)
		defer cancel()
		r, err := h.look.Get(ctx, h.job.Name.Fence(), "")
		if err == nil && r.One() == nil {
			err = errors.New("there is no fence")
		}
		return err
	})
}

// single is one elasticd.
type single struct {
	b      *testing.B
	client string
	http   string // of its page
	args   []string
	cmd    *exec.Cmd
}

func startElasticd(b *testing.B) *single {
	port := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		defer l.Close()
		return l.Addr().String()
	}
	d := &single{b: b, client: "http://" + port()}
	peer, health := "http://"+port(), port()
	d.http = "http://" + health + "/"
	d.args = []string{"--name=s", "--insecure", "--data-dir=" + filepath.Join(b.TempDir(), "data"),
		"--listen-client-urls=" + d.client, "--advertise-client-urls=" + d.client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=s=" + peer,
		"--http=" + health}
	d.start()
	b.Cleanup(func() {
		_ = d.cmd.Process.Signal(syscall.SIGTERM) // an error: it has ended
		_ = d.cmd.Wait()
	})
	until(b, "elasticd is ready", func() error {
		r, err := http.Get("http://" + health + "/readyz")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if text, _ := io.ReadAll(r.Body); r.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", r.Status, text)
		}
		return nil
	})
	return d
}

func (d *single) start() {
	d.cmd = exec.Command(filepath.Join(bin, "elasticd"), d.args...)
	if err := d.cmd.Start(); err != nil {
		d.b.Fatal(err)
	}
}

func (d *single) restart() {
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	_ = d.cmd.Wait()
	d.start()
}

// cost is the CPU time and resident memory of a process.
func cost(pid int) (cpu time.Duration, rss int64) {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	if f := strings.Fields(rest); len(f) > 21 {
		user, _ := strconv.ParseInt(f[11], 10, 64)
		system, _ := strconv.ParseInt(f[12], 10, 64)
		pages, _ := strconv.ParseInt(f[21], 10, 64)
		cpu, rss = time.Duration(user+system)*10*time.Millisecond, pages*int64(os.Getpagesize())
	}
	return cpu, rss
}

// pulse measures a phase: its time, the CPU time of elasticd and of the fleet, writes and renewals.
type pulse struct {
	h      *fleet
	server *single
	end    chan struct{}
	done   sync.WaitGroup

	mu   sync.Mutex
	peak int64 // writes in the busiest second of the phase
}

func newPulse(h *fleet, d *single) *pulse {
	p := &pulse{h: h, server: d, end: make(chan struct{})}
	p.done.Go(func() {
		beat := time.NewTicker(100 * time.Millisecond)
		defer beat.Stop()
		var last []int64
		for {
			select {
			case <-p.end:
				return
			case <-beat.C:
			}
			last = append(last, h.tally.Writes.Load())
			if len(last) > 10 {
				p.mu.Lock()
				p.peak = max(p.peak, last[10]-last[0])
				p.mu.Unlock()
				last = last[1:]
			}
		}
	})
	return p
}

func (p *pulse) stop() { close(p.end); p.done.Wait() }

func (p *pulse) measure(f func()) (took, elasticd, agents time.Duration, writes, peak int64) {
	p.mu.Lock()
	p.peak = 0
	p.mu.Unlock()
	theirs, _ := cost(p.server.cmd.Process.Pid)
	pid := p.server.cmd.Process.Pid
	own, _ := cost(os.Getpid())
	writes = p.h.tally.Writes.Load()
	began := time.Now()
	f()
	took = time.Since(began)
	after, _ := cost(p.server.cmd.Process.Pid)
	if pid != p.server.cmd.Process.Pid {
		theirs = 0
	}
	now, _ := cost(os.Getpid())
	p.mu.Lock()
	defer p.mu.Unlock()
	return took, after - theirs, now - own, p.h.tally.Writes.Load() - writes, max(p.peak, 0)
}

// during prints one phase.
func (p *pulse) during(what, goal string, f func()) {
	before := p.h.newest()
	took, theirs, own, writes, peak := p.measure(f)
	_, rss := cost(p.server.cmd.Process.Pid)
	fmt.Printf("%-62s %7.3fs; CPU elasticd %.2fs, all agents %.2fs; %d writes, %d in the busiest second; "+
		"elasticd %d MB%s\n", what, took.Seconds(),
		theirs.Seconds(), own.Seconds(), writes, peak, rss>>20, goalOf(goal))
	all, _, err := history.Read(p.h.t.Context(), p.h.look, p.h.job.Name, 0)
	if err != nil {
		return
	}
	lost := map[schema.Generation]int{}
	for _, e := range all {
		switch {
		case e.Kind == history.NodeLost:
			lost[e.Generation+1]++
		case e.Generation <= before:
		case e.Kind == history.WorldProposed, e.Kind == history.WorldRunning, e.Kind == history.Started:
			fmt.Printf("    %s generation %d, without %d lost: %s\n", e.Time.Format("05.000"), e.Generation,
				lost[e.Generation], e.Text)
		}
	}
}

func goalOf(goal string) string {
	if goal == "" {
		return ""
	}
	return " (goal: " + goal + ")"
}

// rest prints the cost while nothing happens.
func (p *pulse) rest(d time.Duration) {
	took, theirs, own, writes, _ := p.measure(func() { <-time.After(d) })
	_, rss := cost(p.server.cmd.Process.Pid)
	share := theirs.Seconds() / took.Seconds()
	mark := func(missed bool) string {
		if missed {
			return ": missed"
		}
		return ""
	}
	fmt.Printf("at rest: elasticd %.3f of a core (goal <= 0.5%s), %d MB (goal <= 300%s); an agent %.3f %% "+
		"of a core, without its process and heartbeats; %.1f writes a second\n",
		share, mark(share > 0.5), rss>>20, mark(rss>>20 > 300),
		100*own.Seconds()/took.Seconds()/float64(len(p.h.agents())), float64(writes)/took.Seconds())
}
