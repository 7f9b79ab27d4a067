// Command bench measures how fast a job recovers, on this machine, with the
// real binaries: `make bench`. Times are taken at the workers, which note when
// they start, and from the job's own events; nothing is estimated.
//
//	go run ./bench -bin bin -trials 20
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		fmt.Fprintln(os.Stderr, "bench worker:", work())
		os.Exit(1)
	}
	bin := flag.String("bin", "bin", "directory of elastic and elasticd")
	trials := flag.Int("trials", 20, "trials of each scenario")
	only := flag.String("only", "", "only scenarios whose name contains this")
	flag.Parse()
	if err := run(*bin, *trials, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// scenario measures one trial on a bed of its own; goal is what DESIGN promises.
type scenario struct {
	name, goal string
	trial      func(*bed) (time.Duration, error)
}

var scenarios = []scenario{
	{"agent and worker killed -> survivors' new workers started", "p99 <= 1 s", killed},
	{"node silent (SIGSTOP) -> decided", "p99 <= 3 s", silent},
	{"worker crash -> all workers started again", "p99 <= 0.3 s", crashed},
	{"scale typed -> survivors in Wait", "p99 <= 0.1 s", scaled},
	{"last needed node up -> all workers started", "p99 <= 0.2 s", joined},
}

func run(bin string, trials int, only string) error {
	fmt.Printf("%d trials each; %d CPUs, %s; one machine, a local server, three nodes\n\n", trials, runtime.NumCPU(), runtime.GOOS)
	fmt.Printf("%-62s %-14s %8s %8s %8s %8s\n", "", "goal", "min", "p50", "p99", "max")
	live := term.IsTerminal(int(os.Stderr.Fd()))
	for _, s := range scenarios {
		if !strings.Contains(s.name, only) {
			continue
		}
		var took []time.Duration
		for k := range trials {
			d, err := once(bin, s)
			if err != nil {
				return fmt.Errorf("%s, trial %d: %w", s.name, k+1, err)
			}
			took = append(took, d)
			if live {
				fmt.Fprintf(os.Stderr, "\r%s: %d of %d\x1b[K", s.name, k+1, trials)
			}
		}
		if live {
			fmt.Fprint(os.Stderr, "\r\x1b[K")
		}
		slices.Sort(took)
		at := func(q float64) string {
			return fmt.Sprintf("%7.3fs", took[int(q*float64(len(took)-1)+0.5)].Seconds())
		}
		fmt.Printf("%-62s %-14s %8s %8s %8s %8s\n", s.name, s.goal, at(0), at(0.5), at(0.99), at(1))
	}
	return nil
}

func once(bin string, s scenario) (time.Duration, error) {
	b, err := newBed(bin)
	if err != nil {
		return 0, err
	}
	defer b.remove()
	return s.trial(b)
}

// bed is a job of its own: directories, server, agents.
type bed struct {
	bin, dir string
	env      []string
	agents   map[string]*exec.Cmd
}

func newBed(bin string) (*bed, error) {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("/tmp", "eb")
	if err != nil {
		return nil, err
	}
	b := &bed{bin: bin, dir: dir, agents: map[string]*exec.Cmd{}}
	for _, d := range []string{"run", "state", "starts"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			return nil, err
		}
	}
	b.env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir+"/run", "XDG_STATE_HOME="+dir+"/state", "BENCH_DIR="+dir, "ELASTICD_IDLE=1s")
	return b, nil
}

func (b *bed) remove() {
	for _, c := range b.agents {
		c.Process.Signal(syscall.SIGCONT)
		c.Process.Kill()
		c.Wait()
	}
	var hint struct{ PID int }
	if raw, err := os.ReadFile(b.dir + "/run/elastic/elasticd.json"); err == nil && json.Unmarshal(raw, &hint) == nil && hint.PID > 1 {
		if exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", hint.PID)); exe == filepath.Join(b.bin, "elasticd") {
			syscall.Kill(hint.PID, syscall.SIGTERM)
		}
	}
	os.RemoveAll(b.dir)
}

// agent starts a node.
func (b *bed) agent(node, np string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	home := filepath.Join(b.dir, node)
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	c := exec.Command(filepath.Join(b.bin, "elastic"), "run", "--np="+np, "--job-id=b", "--node="+node, "--console=none", "--last-call=100ms", self, "worker")
	c.Dir, c.Env = home, b.env
	out, err := os.OpenFile(filepath.Join(home, "err"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	c.Stderr = out
	b.agents[node] = c
	return c.Start()
}

// start is one start of a worker, as it noted it.
type start struct {
	generation int
	node       string
	at         time.Time
}

func (b *bed) starts() []start {
	var all []start
	files, _ := filepath.Glob(filepath.Join(b.dir, "starts", "*"))
	for _, f := range files {
		h, err := os.Open(f)
		if err != nil {
			continue
		}
		for s := bufio.NewScanner(h); s.Scan(); {
			g, ns, _ := strings.Cut(s.Text(), " ")
			gen, _ := strconv.Atoi(g)
			n, _ := strconv.ParseInt(ns, 10, 64)
			all = append(all, start{gen, filepath.Base(f), time.Unix(0, n)})
		}
		h.Close()
	}
	return all
}

// running waits until n workers of one generation after g have started: which, and when the last did.
func (b *bed) running(g, n int) (int, time.Time, error) {
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		byGen := map[int][]start{}
		for _, s := range b.starts() {
			byGen[s.generation] = append(byGen[s.generation], s)
		}
		for gen, s := range byGen {
			if gen > g && len(s) == n {
				last := slices.MaxFunc(s, func(a, b start) int { return a.at.Compare(b.at) })
				return gen, last.at, nil
			}
		}
	}
	status, _ := b.elastic("events", "b")
	return 0, time.Time{}, fmt.Errorf("no generation after %d started %d workers within a minute:\n%s", g, n, status)
}

func (b *bed) elastic(args ...string) (string, error) {
	c := exec.Command(filepath.Join(b.bin, "elastic"), args...)
	c.Env = b.env
	out, err := c.CombinedOutput()
	return string(out), err
}

// event waits for the first event of a kind after a moment.
func (b *bed) event(kind string, after time.Time) (time.Time, error) {
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		out, err := b.elastic("events", "b", "-o", "json")
		if err != nil {
			continue
		}
		for l := range strings.Lines(out) {
			var e struct {
				Kind string
				Time time.Time
			}
			if json.Unmarshal([]byte(l), &e) == nil && e.Kind == kind && e.Time.After(after.Truncate(time.Millisecond)) {
				return e.Time, nil
			}
		}
	}
	return time.Time{}, fmt.Errorf("no event %s within a minute", kind)
}

// three starts three nodes and waits until they train.
func (b *bed) three(np string) (int, error) {
	for _, n := range []string{"a", "b", "c"} {
		if err := b.agent(n, np); err != nil {
			return 0, err
		}
	}
	g, _, err := b.running(0, 3)
	return g, err
}

func killed(b *bed) (time.Duration, error) {
	g, err := b.three("2:3")
	if err != nil {
		return 0, err
	}
	at := time.Now()
	victim := b.agents["c"]
	victim.Process.Kill()
	victim.Wait()
	delete(b.agents, "c")
	_, last, err := b.running(g, 2)
	return last.Sub(at), err
}

func silent(b *bed) (time.Duration, error) {
	if _, err := b.three("2:3"); err != nil {
		return 0, err
	}
	at := time.Now()
	b.agents["c"].Process.Signal(syscall.SIGSTOP)
	lost, err := b.event("node_lost", at)
	return lost.Sub(at), err
}

func crashed(b *bed) (time.Duration, error) {
	g, err := b.three("3")
	if err != nil {
		return 0, err
	}
	at := time.Now()
	if err := os.WriteFile(filepath.Join(b.dir, "crash"), nil, 0o600); err != nil {
		return 0, err
	}
	_, last, err := b.running(g, 3)
	var noted time.Time
	if raw, e := os.ReadFile(filepath.Join(b.dir, "crashed")); e == nil {
		ns, _ := strconv.ParseInt(string(raw), 10, 64)
		noted = time.Unix(0, ns)
	}
	if noted.Before(at) {
		return 0, errors.Join(err, errors.New("no worker crashed"))
	}
	return last.Sub(noted), err
}

func scaled(b *bed) (time.Duration, error) {
	if _, err := b.three("3"); err != nil {
		return 0, err
	}
	at := time.Now()
	if out, err := b.elastic("scale", "b", "--np=4", "--detach"); err != nil {
		return 0, fmt.Errorf("%w: %s", err, out)
	}
	wait, err := b.event("wait_entered", at)
	return wait.Sub(at), err
}

func joined(b *bed) (time.Duration, error) {
	for _, n := range []string{"a", "b"} {
		if err := b.agent(n, "3"); err != nil {
			return 0, err
		}
	}
	if _, err := b.event("node_joined", time.Time{}); err != nil {
		return 0, err
	}
	for { // both are registered
		out, err := b.elastic("nodes", "b", "-q")
		if err == nil && len(strings.Fields(out)) == 2 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	at := time.Now()
	if err := b.agent("c", "3"); err != nil {
		return 0, err
	}
	_, last, err := b.running(0, 3)
	return last.Sub(at), err
}

// work is what the workers do: note their start, wait, and crash once when told to. It returns only with an error.
func work() error {
	dir := os.Getenv("BENCH_DIR")
	f, err := os.OpenFile(filepath.Join(dir, "starts", os.Getenv("ELASTIC_NODE")), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(f, "%s %d\n", os.Getenv("ELASTIC_GENERATION"), time.Now().UnixNano()); err != nil {
		return err
	}
	for {
		if os.Getenv("ELASTIC_RANK") == "1" && os.Remove(filepath.Join(dir, "crash")) == nil {
			if err := os.WriteFile(filepath.Join(dir, "crashed"), []byte(strconv.FormatInt(time.Now().UnixNano(), 10)), 0o600); err != nil {
				return err
			}
			os.Exit(3)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
