package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// mostCycles is how many generations may fail because of a bad checkpoint before one trains on.
const mostCycles = 3

// The state is invalid from step 30 on. It is saved every five steps, and generation 1 fails at
// step 40. Each checkpoint has exactly the saved bytes, so only the failures of generations show
// that it is bad.
const poisoned = `
def wait(name):
    while not os.path.exists(name):
        time.sleep(0.01)

world = elastic.world()
state = elastic.State(save_every=5, keep=20, poisoned=False)
state.load()
%s
begin, first = state.step, world.generation == 1
while state.step < 60:
    if first and state.step in (29, 34, 39):
        wait(f"committed-{state.step - 4}")
        state.poisoned = True
    bad = state.poisoned and (first and state.step == 39 or not first and state.step == begin + 2)
    %s
print("steps:", state.step, "poisoned:", state.poisoned)
`

func TestPoisonedCheckpointsAreLeft(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ flag, load, step string }{
		// Elastic stops the worker, which would go on.
		"the loss is not a number three steps after each load": {"--on-nan=rollback", "",
			`state.commit(loss=float("nan") if bad else 0.5); wait("never") if bad else None`},
		"the worker fails as soon as it has loaded": {"--on-nan=ignore", "if state.poisoned: sys.exit(3)",
			`state.commit(loss=0.5); sys.exit(3) if bad else None`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSandbox(t)
			x := p.run("--job-id=x", "--keep=20", "--max-restarts=10", c.flag, "python3",
				p.script("import os\n"+fmt.Sprintf(poisoned, c.load, c.step)))
			for _, step := range []int{25, 30, 35} {
				p.committedStep("x", step)
				p.touch(fmt.Sprintf("committed-%d", step))
			}
			p.ends(x, 0)
			if got := lastLine(x.stdout()); got != "steps: 60 poisoned: False" {
				t.Errorf("the script says %q", got)
			}
			all := p.events("x")
			p.cycles(all)
			if len(kinds(all, "checkpoint_distrusted")) == 0 {
				t.Error("no event says that a checkpoint is not trusted")
			}
			if nan := len(kinds(all, "loss_nan")); (nan > 0) != (c.flag == "--on-nan=rollback") {
				t.Errorf("%d events of a loss that is not a number", nan)
			}
		})
	}
}

// committedStep waits until a checkpoint of a step is committed.
func (p *sandbox) committedStep(job string, step int) {
	p.t.Helper()
	until(p.t, fmt.Sprintf("step %d is committed", step), func() error {
		out, err := p.try("ckpt", "ls", job, "-o", "json")
		if err != nil {
			return err // the job may not be there yet
		}
		var all []struct{ Step int }
		if err := json.Unmarshal([]byte(out), &all); err != nil {
			return err
		}
		if !slices.ContainsFunc(all, func(c struct{ Step int }) bool { return c.Step == step }) {
			return fmt.Errorf("committed are %v", all)
		}
		return nil
	})
}

// cycles checks how many generations failed between the first and the last.
func (p *sandbox) cycles(all []eventLine) {
	p.t.Helper()
	dead := len(kinds(all, "world_running")) - 2
	p.t.Logf("%d generations died before one was healthy", dead)
	if dead > mostCycles {
		p.t.Errorf("%d generations died before one was healthy, at most %d may", dead, mostCycles)
	}
}

// A checkpoint is damaged on the disk after it was hashed and committed. It is never loaded, and
// the next generation goes on from the checkpoint before.
func TestDamagedCheckpointIsLeft(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	x := p.run("--job-id=x", "--node=a", "--keep=20", "--max-restarts=10", "python3", p.script(`
import os
state = elastic.State(save_every=5, keep=20, filling=os.urandom(100_000))
state.load()
print("loaded step", state.step, flush=True)
while state.step < 60:
    if elastic.world().generation == 1 and state.step in (6, 11):
        while not os.path.exists(f"committed-{state.step - 1}"):
            time.sleep(0.01)
    state.filling = os.urandom(100_000)
    state.commit(loss=0.5)
`))
	p.committedStep("x", 5)
	p.touch("committed-5")
	p.committedStep("x", 10)
	if n := p.damageChunksOf("step-10"); n == 0 {
		t.Fatal("the newest checkpoint has no chunk on this disk")
	}
	workers := p.workersOf("a", "train.py")
	if len(workers) != 1 {
		t.Fatalf("workers: %v", workers)
	}
	workers[0].signal(syscall.SIGKILL)
	p.ends(x, 0)
	if !strings.Contains(x.stdout(), "loaded step 5\n") || strings.Contains(x.stdout(), "loaded step 10\n") {
		t.Errorf("the script says %q", x.stdout())
	}
	all := p.events("x")
	p.cycles(all)
	if len(kinds(all, "checkpoint_bad")) == 0 {
		t.Error("no event says that a checkpoint is damaged")
	}
}

// damageChunksOf changes bytes in the middle of every chunk that only the newest checkpoint has,
// and returns how many chunks there are. It also removes the files that the worker saved, so that
// the chunks cannot be repaired from them.
func (p *sandbox) damageChunksOf(save string) (n int) {
	p.t.Helper()
	jobs := filepath.Join(p.dir, "state", "elastic", "*", "nodes", "*", "jobs", "x")
	saved, err := filepath.Glob(filepath.Join(jobs, "work", save))
	if err != nil || len(saved) != 1 {
		p.t.Fatalf("the save: %v %v", saved, err)
	}
	info, err := os.Stat(saved[0])
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.RemoveAll(saved[0]); err != nil {
		p.t.Fatal(err)
	}
	err = filepath.Walk(filepath.Dir(filepath.Dir(saved[0])),
		func(path string, f os.FileInfo, err error) error {
			if err != nil || !f.Mode().IsRegular() || f.Size() < 50_000 ||
				f.ModTime().Before(info.ModTime()) ||
				!strings.Contains(path, "/store/") {
				return err
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			n++
			b[len(b)/2] ^= 1
			if err := os.Chmod(path, 0o600); err != nil {
				return err
			}
			return os.WriteFile(path, b, 0o600)
		})
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}
