package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/launch"
	"github.com/elasticd/elastic/pkg/scaling"
)

// The test binary is also the worker: main runs as in a process of its own.
func TestMain(m *testing.M) {
	if os.Getenv("TRAIN_TEST_WORKER") != "" {
		main()
	}
	os.Exit(m.Run())
}

// environ is what elastic tells the ranks of a world that are all on one node.
func environ(t *testing.T, base scaling.Base, generation uint64, size int, dir string) [][]string {
	t.Helper()
	plan, err := scaling.For(base, size)
	if err != nil {
		t.Fatal(err)
	}
	ports, err := launch.Ports(1, 0, 0, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	in := launch.Inputs{
		Job: "x", Generation: generation, Node: "a", Nodes: 1, Workers: size, WorldSize: size,
		CheckpointDir: dir, RunDir: t.TempDir(), Plan: plan, LRScale: base.LRScale(size),
		MasterHost: "127.0.0.1", MasterPort: ports[0],
	}
	for local := range size {
		if err := os.MkdirAll(launch.WorkerDir(in.RunDir, generation, local), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return launch.Environ(in)
}

func fixed(batch int) scaling.Base {
	return scaling.Base{Batch: batch, LR: .2, Nodes: 3, Slots: 1, Policy: scaling.FixedBatch}
}

func getenv(env []string) func(string) string {
	return func(name string) string {
		for _, kv := range env {
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				return v
			}
		}
		return ""
	}
}

// runWorld runs all ranks to their end in this process; the output is rank 0's.
func runWorld(t *testing.T, envs [][]string, args ...string) (codes []int, out string) {
	t.Helper()
	codes = make([]int, len(envs))
	var stdout, stderr [64]bytes.Buffer
	var all sync.WaitGroup
	for r, env := range envs {
		all.Go(func() {
			codes[r] = run(t.Context(), append([]string{"--pace=0"}, args...), getenv(env),
				console{&stdout[r], &stderr[r]})
		})
	}
	all.Wait()
	for r := range envs {
		out += stdout[r].String() + stderr[r].String()
	}
	return codes, out
}

func mustComplete(t *testing.T, envs [][]string, args ...string) string {
	t.Helper()
	codes, out := runWorld(t, envs, args...)
	if slices.Max(codes) != 0 {
		t.Fatalf("exit codes %v\n%s", codes, out)
	}
	return out
}

func mustNewest(t *testing.T, dir string) *state {
	t.Helper()
	s, err := newest(dir)
	if err != nil || s == nil {
		t.Fatalf("newest save: %v, %v", s, err)
	}
	return s
}

// sameWeights: the order of additions differs with the world, nothing else does.
func sameWeights(t *testing.T, got, want *state) {
	t.Helper()
	if got.Step != want.Step || got.Samples != want.Samples || got.Checksum != want.Checksum {
		t.Errorf("step %d, %d samples, checksum %v; want %d, %d, %v",
			got.Step, got.Samples, got.Checksum, want.Step, want.Samples, want.Checksum)
	}
	for i := range want.Weights {
		if d := math.Abs(got.Weights[i] - want.Weights[i]); !(d <= 1e-9) {
			t.Fatalf("weight %d differs by %g", i, d)
		}
	}
}

// 3 epochs of 1,010 in batches of 60: the last batch of an epoch has 50.
var smallRun = []string{"--samples=1010", "--epochs=3"}

func reference(t *testing.T) *state {
	t.Helper()
	dir := t.TempDir()
	mustComplete(t, environ(t, fixed(60), 1, 1, dir), smallRun...)
	return mustNewest(t, dir)
}

func TestFixedBatchDoesNotDependOnTheWorld(t *testing.T) {
	want := reference(t) // one worker, three micro-batches
	for _, size := range []int{2, 3, 4, 7} {
		t.Run(fmt.Sprintf("world %d", size), func(t *testing.T) {
			dir := t.TempDir()
			out := mustComplete(t, environ(t, fixed(60), 1, size, dir), smallRun...)
			got := mustNewest(t, dir)
			sameWeights(t, got, want)
			if got.Samples != 3030 || !strings.Contains(out,
				"done: 51 steps, 3030 samples = 3 epochs, every sample once an epoch; generation 1: 51 "+
					"steps at world") {
				t.Errorf("%d samples, output\n%s", got.Samples, out)
			}
		})
	}
}

// A last batch cut short by the end of the run is the mean over what it holds.
func TestShortBatchIsAMeanToo(t *testing.T) {
	half, whole := t.TempDir(), t.TempDir()
	mustComplete(t, environ(t, fixed(60), 1, 4, half), "--samples=30", "--epochs=1")
	mustComplete(t, environ(t, fixed(30), 1, 4, whole), "--samples=30", "--epochs=1")
	sameWeights(t, mustNewest(t, half), mustNewest(t, whole))
}

func TestEveryEpochHasItsOwnOrder(t *testing.T) {
	d := makeData(100, 1)
	var last []int
	for epoch := range int64(3) {
		var order []int
		for i := range int64(100) {
			order = append(order, d.at(epoch*100+i))
		}
		if slices.Equal(order, last) {
			t.Errorf("epoch %d has the order of the one before", epoch)
		}
		last = slices.Clone(order)
		slices.Sort(order)
		for i := range order {
			if order[i] != i {
				t.Fatalf("epoch %d lacks or repeats sample %d", epoch, i)
			}
		}
	}
}

func TestItLearns(t *testing.T) {
	out := mustComplete(t, environ(t, scaling.Base{Nodes: 2, Slots: 1}, 1, 2, t.TempDir()), "--samples=3000",
		"--epochs=12")
	var accuracy float64
	_, err := fmt.Sscanf(out[strings.LastIndex(out, "accuracy"):], "accuracy %f", &accuracy)
	if err != nil || accuracy < 90 {
		t.Errorf("accuracy %v (%v)\n%s", accuracy, err, out)
	}
}

// The batch grows and shrinks with the world, and no world ends on the boundary
// of an epoch. prove would end a rank with 1.
func TestEverySampleOnceAnEpochAcrossWorlds(t *testing.T) {
	dir, linear := t.TempDir(), scaling.Base{Batch: 50, LR: .1, Nodes: 3, Slots: 1}
	for i, c := range []struct{ size, steps int }{{3, 7}, {1, 12}, {5, 20}, {2, 33}} {
		mustComplete(t, environ(t, linear, uint64(i+1), c.size, dir), "--samples=1010",
			fmt.Sprintf("--steps=%d", c.steps))
	}
	out := mustComplete(t, environ(t, linear, 5, 4, dir), smallRun...)
	s := mustNewest(t, dir)
	want := []stretch{{1, 3, 7}, {2, 1, 5}, {3, 5, 8}, {4, 2, 13}}
	if s.Samples != 3030 || len(s.History) != 5 || !slices.Equal(s.History[:4], want) {
		t.Errorf("%d samples, history %+v\n%s", s.Samples, s.History, out)
	}
	if !strings.Contains(out,
		"every sample once an epoch; generation 1: 7 steps at world 3, generation 2: 5 steps at world 1") {
		t.Error(out)
	}
}

func TestASampleTakenTwiceIsNoticed(t *testing.T) {
	dir := t.TempDir()
	mustComplete(t, environ(t, fixed(60), 1, 1, dir), "--samples=1010", "--steps=10")
	s := mustNewest(t, dir)
	s.Samples -= 60 // as if a worker had gone on from the weights of one step and the position of another
	if err := save(dir, s); err != nil {
		t.Fatal(err)
	}
	if codes, out := runWorld(t, environ(t, fixed(60), 2, 2, dir), smallRun...); !slices.Equal(codes,
		[]int{1, 1}) ||
		!strings.Contains(out, "checksum") {
		t.Errorf("exit codes %v\n%s", codes, out)
	}
}

func TestCompletedRunStaysComplete(t *testing.T) {
	dir := t.TempDir()
	first := mustComplete(t, environ(t, fixed(60), 1, 2, dir), smallRun...)
	again := mustComplete(t, environ(t, fixed(60), 2, 3, dir), smallRun...)
	if a, b := first[strings.Index(first, "done:"):], again[strings.Index(again, "done:"):]; a != b {
		t.Errorf("first %s\nthen %s", a, b)
	}
}

func TestTornSavesAreIgnored(t *testing.T) {
	dir := t.TempDir()
	for step := range 6 {
		if err := save(dir, &state{Step: step + 1, Samples: int64(step)}); err != nil {
			t.Fatal(err)
		}
	}
	if steps, err := saves(dir); err != nil || !slices.Equal(steps, []int{6, 5, 4}) {
		t.Errorf("kept %v, %v", steps, err)
	}
	if err := os.Remove(filepath.Join(savePath(dir, 6), commitFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(savePath(dir, 5), stateFile), 20); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"step-9", "step-x", "step-7 (copy)", "step-08"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if s := mustNewest(t, dir); s.Step != 4 {
		t.Errorf("step %d, want 4: 5 is cut off, 6 and 9 are not finished", s.Step)
	}
	// A later save clears torn ones of the past, and is not pushed out by one of
	// steps that were given up.
	if err := save(dir, &state{Step: 7}); err != nil {
		t.Fatal(err)
	}
	if steps, err := saves(dir); err != nil || !slices.Equal(steps, []int{9, 7, 5, 4}) {
		t.Errorf("kept %v, %v", steps, err)
	}
}

func TestResumeFrom(t *testing.T) {
	dir := t.TempDir()
	mustComplete(t, environ(t, fixed(60), 1, 1, dir), "--samples=1010", "--steps=10", "--save-every=0")
	set := func(env []string, from string) []string {
		return append([]string{"ELASTIC_RESUME_FROM=" + from}, env...)
	}
	args := []string{"--samples=1010", "--steps=12"}

	t.Run("the one that is given, not the newest", func(t *testing.T) {
		envs := environ(t, fixed(60), 2, 2, t.TempDir())
		for r := range envs {
			envs[r] = set(envs[r], savePath(dir, 8))
		}
		if out := mustComplete(t, envs, args...); !strings.Contains(out, "from step 8 (480 samples)") {
			t.Error(out)
		}
	})
	t.Run("one rank has it", func(t *testing.T) {
		envs := environ(t, fixed(60), 2, 3, t.TempDir())
		for r, from := range []string{"/nonexistent", savePath(dir, 9), "/nonexistent"} {
			envs[r] = set(envs[r], from)
		}
		if out := mustComplete(t, envs, args...); !strings.Contains(out, "from step 9 (540 samples)") {
			t.Error(out)
		}
	})
	t.Run("the newest of any rank, if none is given", func(t *testing.T) {
		envs := environ(t, fixed(60), 2, 3, t.TempDir())
		envs[2] = append([]string{"ELASTIC_CHECKPOINT_DIR=" + dir}, envs[2]...)
		if out := mustComplete(t, envs, args...); !strings.Contains(out, "from step 10 (600 samples)") {
			t.Error(out)
		}
	})
	t.Run("never silently from scratch", func(t *testing.T) {
		envs := environ(t, fixed(60), 2, 2, t.TempDir())
		for r := range envs {
			envs[r] = set(envs[r], "/nonexistent/step-8")
		}
		codes, out := runWorld(t, envs, args...)
		if !slices.Equal(codes, []int{1, 1}) || !strings.Contains(out, "/nonexistent/step-8") {
			t.Errorf("exit codes %v\n%s", codes, out)
		}
	})
	t.Run("of another run", func(t *testing.T) {
		codes, out := runWorld(t, environ(t, fixed(60), 2, 2, dir), "--samples=1011", "--steps=12")
		if !slices.Equal(codes, []int{1, 1}) || !strings.Contains(out, "--samples=1010") {
			t.Errorf("exit codes %v\n%s", codes, out)
		}
	})
}

// A port scanner, and a worker of an older generation that woke up late, knock
// at rank 0 before its own peers do.
func TestStrangersDoNotCount(t *testing.T) {
	dir := t.TempDir()
	envs := environ(t, fixed(60), 2, 3, dir)
	old := func(env []string) []string { return append([]string{"ELASTIC_GENERATION=1"}, env...) }
	codes := make([]int, 4)
	var rank0 sync.WaitGroup
	start := func(i int, env []string) {
		rank0.Go(func() {
			codes[i] = run(t.Context(), append([]string{"--pace=0"}, smallRun...), getenv(env),
				console{io.Discard, io.Discard})
		})
	}
	start(0, envs[0])
	addr := net.JoinHostPort("127.0.0.1", getenv(envs[0])("MASTER_PORT"))
	waitFor(t, func() error {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			fmt.Fprint(c, "GET / HTTP/1.1\r\n\r\n")
			c.Close()
		}
		return err
	})
	var late sync.WaitGroup
	late.Go(func() {
		codes[3] = run(t.Context(), append([]string{"--pace=0"}, smallRun...), getenv(old(envs[1])),
			console{io.Discard, io.Discard})
	})
	late.Wait()
	start(1, envs[1])
	start(2, envs[2])
	rank0.Wait()
	if !slices.Equal(codes, []int{0, 0, 0, 1}) {
		t.Errorf("exit codes %v, the last is the stranger's", codes)
	}
	sameWeights(t, mustNewest(t, dir), reference(t))
}

func TestUsage(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		args []string
		want int
	}{
		"help":                 {nil, []string{"-h"}, 0},
		"unknown flag":         {nil, []string{"--fast"}, 2},
		"an argument":          {nil, []string{"fast"}, 2},
		"no samples":           {nil, []string{"--samples=0"}, 2},
		"rank beyond the size": {map[string]string{"RANK": "2", "WORLD_SIZE": "2"}, nil, 1},
		"rank is no number":    {map[string]string{"RANK": "two"}, nil, 1},
		"batch is not ours": {map[string]string{"ELASTIC_BATCH_SIZE": "9", "ELASTIC_GLOBAL_BATCH_SIZE": "10"},
			[]string{"--pace=0"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var out, err bytes.Buffer
			if got := run(t.Context(), c.args, func(n string) string { return c.env[n] },
				console{&out, &err}); got != c.want {
				t.Errorf("status %d, want %d\n%s%s", got, c.want, &out, &err)
			}
			if err.Len() == 0 {
				t.Error("not a word on stderr")
			}
		})
	}
}

// process is a rank in a process of its own.
type process struct {
	*exec.Cmd
	out, err bytes.Buffer
}

func startProcesses(t *testing.T, envs [][]string, args ...string) []*process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ps := make([]*process, len(envs))
	for r, env := range envs {
		p := &process{Cmd: exec.Command(exe, args...)}
		p.Env = append(slices.Clone(env), "TRAIN_TEST_WORKER=1")
		p.Stdout, p.Stderr = &p.out, &p.err
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if p.ProcessState == nil {
				p.Process.Kill()
				p.Wait()
			}
		})
		ps[r] = p
	}
	return ps
}

func (p *process) ends(t *testing.T, code int, words string) {
	t.Helper()
	p.Wait()
	if got := p.ProcessState.ExitCode(); got != code || !strings.Contains(p.err.String(), words) {
		t.Errorf("%v, want exit status %d and %q\n%s%s", p.ProcessState, code, words, &p.out, &p.err)
	}
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// waitFor tries until there is no error, or reports the last one.
func waitFor(t *testing.T, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
}

func savedBeyond(dir string, step int) func() error {
	return func() error {
		if s, err := newest(dir); err != nil || s == nil || s.Step <= step {
			return fmt.Errorf("no save beyond step %d: %v, %v", step, s, err)
		}
		return nil
	}
}

// Killed at two workers, stopped at one, finished at three: the weights are those of an undisturbed
// run.
func TestKillStopAndGoOn(t *testing.T) {
	dir := t.TempDir()
	slow := append([]string{"--step-sleep=20ms", "--save-every=0"}, smallRun...)

	ps := startProcesses(t, environ(t, fixed(60), 1, 2, dir), slow...)
	waitFor(t, savedBeyond(dir, 3))
	ps[1].signal(t, syscall.SIGKILL)
	ps[0].ends(t, 1, "lost connection to rank 1")
	ps[1].ends(t, -1, "")

	ps = startProcesses(t, environ(t, fixed(60), 2, 1, dir), slow...)
	waitFor(t, savedBeyond(dir, mustNewest(t, dir).Step+3))
	ended, asked := make(chan struct{}), ps[0].Process
	go func() { // by a scheduler and by the agent: one of them is enough, and more break off no save
		for tick := time.NewTicker(time.Millisecond); ; <-tick.C {
			select {
			case <-ended:
				return
			default:
				_ = asked.Signal(syscall.SIGTERM) // an error: it has ended
			}
		}
	}()
	ps[0].ends(t, 143, "asked")
	close(ended)

	ps = startProcesses(t, environ(t, fixed(60), 3, 3, dir), append([]string{"--pace=0"}, smallRun...)...)
	for _, p := range ps {
		p.ends(t, 0, "")
	}
	got := mustNewest(t, dir)
	sameWeights(t, got, reference(t))
	steps, generations := 0, map[int]bool{}
	for _, h := range got.History {
		steps += h.Steps
		generations[h.Generation] = true
	}
	if !maps.Equal(generations, map[int]bool{1: true, 2: true, 3: true}) || steps != got.Step {
		t.Errorf("step %d, history %+v", got.Step, got.History)
	}
}

// One rank is asked, the others later: they stop after the same step, rank 0 saves
// it, and none ends before it was asked itself.
func TestAllRanksStopTogether(t *testing.T) {
	dir := t.TempDir()
	var ask [3]context.CancelFunc
	var ended [3]chan int
	for r, env := range environ(t, fixed(60), 1, 3, dir) {
		ctx, cancel := context.WithCancel(t.Context())
		ask[r], ended[r] = cancel, make(chan int, 1)
		go func() {
			code := run(ctx, []string{"--step-sleep=1ms", "--save-every=0", "--epochs=100000"}, getenv(env),
				console{io.Discard, io.Discard})
			if ctx.Err() == nil {
				t.Errorf("rank %d ended with %d before it was asked to", r, code)
			}
			ended[r] <- code
		}()
	}
	waitFor(t, savedBeyond(dir, 3))
	stopped := 0
	for _, r := range []int{2, 1, 0} {
		ask[r]()
		if code := <-ended[r]; code != 143 {
			t.Errorf("rank %d ended with %d", r, code)
		}
		if s := mustNewest(t, dir); stopped == 0 {
			stopped = s.Step
		} else if s.Step != stopped {
			t.Errorf("stopped after step %d, then there is a save of step %d", stopped, s.Step)
		}
	}
}

func TestDrainFileAsks(t *testing.T) {
	dir := t.TempDir()
	envs := environ(t, fixed(60), 1, 2, dir)
	ps := startProcesses(t, envs, append([]string{"--step-sleep=1ms", "--save-every=1h", "--epochs=100000"},
		smallRun[:1]...)...)
	drain := getenv(envs[0])("ELASTIC_DRAIN_FILE")
	if err := os.WriteFile(drain, []byte(`{"reason":"scale","grace_seconds":30}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range ps {
		p.ends(t, 143, "asked")
	}
	if s := mustNewest(t, dir); s.Step < 1 {
		t.Errorf("saved step %d", s.Step)
	}
}

func TestAskedBeforeTheOthersCame(t *testing.T) {
	envs := environ(t, fixed(60), 1, 2, t.TempDir())
	p := startProcesses(t, envs[:1])[0]
	addr := net.JoinHostPort("127.0.0.1", getenv(envs[0])("MASTER_PORT"))
	waitFor(t, func() error {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err
	})
	p.signal(t, syscall.SIGTERM)
	p.ends(t, 143, "asked")
}

func TestProgressIsReported(t *testing.T) {
	envs := environ(t, fixed(60), 1, 2, t.TempDir())
	mustComplete(t, envs, smallRun...)
	data, err := os.ReadFile(getenv(envs[0])("ELASTIC_PROGRESS_FILE"))
	if err != nil || !strings.HasPrefix(string(data), `{"step":51,"loss":`) ||
		!strings.HasSuffix(string(data), `,"samples":3030,"generation":1,"total_samples":3030}`+"\n") {
		t.Errorf("%q, %v", data, err)
	}
}
