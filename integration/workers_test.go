package integration

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLongLine(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	const n = 64 << 20
	x := p.run("--job-id=x", "sh", "-c", fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x; echo; echo end`, n))
	p.ends(x, 0)
	want := append(bytes.Repeat([]byte("x"), n), "\nend\n"...)
	shown, err := os.ReadFile(x.out)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(shown, want) {
		t.Errorf("stdout is not what the worker wrote: %d bytes of %d", len(shown), len(want))
	}
	log, err := os.ReadFile(p.path("log", "workerlog.0"))
	if err != nil {
		t.Fatal(err)
	}
	header, rest, _ := bytes.Cut(log, []byte("\n"))
	if !strings.HasPrefix(string(header), "---- elastic: generation 1, rank 0, world size 1, node ") ||
		!bytes.HasSuffix(header, []byte(" ----")) {
		t.Errorf("the log begins with %.100q", header)
	}
	if !bytes.Equal(rest, want) {
		t.Errorf("workerlog.0 is not what the worker wrote: %d bytes of %d", len(rest), len(want))
	}
}

func TestRestartsUsed(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	// Rank 1 fails at once, every time; rank 0 is its victim.
	args := []string{"--np=2", "--job-id=x", "--max-restarts=3", "sh", "-c",
		`echo "last words" >&2; [ $RANK = 1 ] && exit 7; exec sleep 1000`}
	a, b := p.run(append([]string{"--node=a"}, args...)...), p.run(append([]string{"--node=b"}, args...)...)
	p.ends(a, 7)
	p.ends(b, 7)
	st, err := p.status("x")
	if err != nil {
		t.Fatal(err)
	}
	if st.State != "failed" || st.WhyCode != "restarts-used" || st.Generation != 4 || st.Restarts.Used != 3 ||
		st.Restarts.Max != 3 {
		t.Errorf("status: %s, restarts %+v", st, st.Restarts)
	}
	blamed := st.World[1].Node
	if e := st.Exit; e == nil || e.Code != 7 || e.Source != "worker" || e.ExitCode == nil ||
		*e.ExitCode != 7 ||
		e.Rank == nil || *e.Rank != 1 || e.LocalRank == nil || *e.LocalRank != 0 || e.Node == nil ||
		*e.Node != blamed || e.Signal != nil {
		t.Errorf("exit: %+v", e)
	}
	for _, x := range []*proc{a, b} {
		said := strings.Split(strings.TrimRight(x.stderr(), "\n"), "\n")
		at := -1
		for i, line := range said {
			switch {
			case strings.HasPrefix(line, "ABORT"):
				if at >= 0 {
					t.Errorf("aborted twice:\n%s", x.stderr())
				}
				at = i
			case !strings.HasPrefix(line, "elastic: "):
				t.Errorf("a line on stderr is %q", line)
			}
		}
		if at < 0 || at+2 >= len(said) {
			t.Fatalf("no ABORT:\n%s", x.stderr())
		}
		if want := "ABORT!!! Out of all 2 trainers, the trainer process with rank=[1] was aborted. Please " +
			"check its log."; said[at] != want {
			t.Errorf("%q, want %q", said[at], want)
		}
		if want := fmt.Sprintf("elastic:   rank 1, node %s, local rank 0, generation 4: exit code 7; log ",
			blamed); !strings.HasPrefix(said[at+1], want) || !strings.HasSuffix(said[at+1], "workerlog.0") {
			t.Errorf("%q, want %q…workerlog.0", said[at+1], want)
		}
		if want := fmt.Sprintf("elastic: job x failed: restarts used (3 of 3): 3 by %s; exit code 7", blamed); said[len(said)-1] != want {
			t.Errorf("%q, want %q", said[len(said)-1], want)
		}
	}
	if n := len(p.headers()); n != 8 {
		t.Errorf("%d workers were started, want 4 generations of 2", n)
	}
	all := p.events("x")
	failures := kinds(all, "worker_failed")
	if len(failures) != 4 {
		t.Errorf("%d failures in the events", len(failures))
	}
	for i, f := range failures {
		if f.Generation != i+1 || f.Collateral || f.Spent != (i < 3) {
			t.Errorf("failure %d: %+v", i+1, f)
		}
	}
	var waited []float64
	for _, b := range kinds(all, "backoff") {
		waited = append(waited, b.Seconds)
	}
	if fmt.Sprint(waited) != "[1 2]" && fmt.Sprint(waited) != "[0 1 2]" {
		t.Errorf("backed off %v s, want 0, 1, 2", waited)
	}
	if last := all[len(all)-1]; len(kinds(all, "job_failed")) != 1 {
		t.Errorf("the last event is %+v", last)
	}
}

// Processes that a worker started end with it when it is asked to stop, and are not waited for: the
// grace is for the worker.
func TestPlannedStopEndsWithItsWorkers(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	x := p.run("--job-id=x", "--node=a", "--grace=1h", "sh", "-c", breed)
	p.running("x", 1, 1)
	grandchild := pidIn(t, p.path("grandchild.a"))
	p.must("stop", "x", "--detach")
	p.ends(x, 93)
	if alive(grandchild) {
		t.Error("the grandchild lives")
	}
}

// A worker that catches SIGTERM has the whole grace, alone, and its save is waited for.
func TestPlannedStopWaitsForTheSave(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	x := p.run("--job-id=x", "--node=a", "sh", "-c",
		`trap 'cp "$ELASTIC_DRAIN_FILE" drain; sleep 2; echo saved >saved; exit 0' TERM
		sleep 1000 & echo $$ >worker; while :; do wait; done`)
	p.running("x", 1, 1)
	pidIn(t, p.path("worker"))
	p.must("stop", "x")
	p.ends(x, 93)
	if got := p.read("saved"); got != "saved\n" {
		t.Errorf("saved is %q", got)
	}
	if d := p.read("drain"); !strings.Contains(d, `"reason":"stop"`) ||
		!strings.Contains(d, `"grace_seconds":30`) {
		t.Errorf("the drain file was %s", d)
	}
}

func TestManyWorkersOfANode(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	x := p.run("--job-id=x", "--node=a", "--nproc-per-node=3", "sh", "-c", `echo "I am $LOCAL_RANK"; sleep 1`)
	p.ends(x, 0)
	for i := range 3 {
		log := p.read("log", fmt.Sprintf("workerlog.%d", i))
		header, rest, _ := strings.Cut(log, "\n")
		if !strings.HasPrefix(header,
			fmt.Sprintf("---- elastic: generation 1, rank %d, world size 3, node a, ", i)) ||
			rest != fmt.Sprintf("I am %d\n", i) {
			t.Errorf("workerlog.%d is %q", i, log)
		}
		st, err := os.Stat(p.path("log", fmt.Sprintf("workerlog.%d", i)))
		if err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("workerlog.%d: %v, %v", i, st.Mode(), err)
		}
	}
	if x.stdout() != "I am 0\n" {
		t.Errorf("stdout is %q", x.stdout())
	}
	if found, _ := filepath.Glob(p.path("*")); len(found) != 1 {
		t.Errorf("something beside the logs was written here: %v", found)
	}
}
