package node

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/launch"
	"github.com/elasticd/elastic/internal/node/saves"
	"github.com/elasticd/elastic/internal/scope"
	"github.com/elasticd/elastic/internal/worker"
	"github.com/elasticd/elastic/internal/worker/output"
	"github.com/elasticd/elastic/internal/worker/proc"
	"github.com/elasticd/elastic/pkg/membership"
	"github.com/elasticd/elastic/pkg/rendezvous"
)

// The test binary is also the guardian.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Guardian {
		os.Exit(worker.Guard())
	}
	os.Exit(m.Run())
}

// A node with a new address writes it into its mark in the checkpoint directory when it joins
// again.
func TestTheMarkMovesWithTheNode(t *testing.T) {
	address := "10.0.0.1:7"
	var effects scope.Scope
	w := &workers{dir: t.TempDir(), node: "a", effects: &effects, notice: func(s string) { t.Error(s) },
		closed: true,
		mark: &saves.Mark{Dir: t.TempDir(), Node: "a", Address: func() string { return address },
			Notice: func(s string) { t.Error(s) }}}
	w.job.Store(&rendezvous.Job{})
	if err := w.mark.Write(); err != nil {
		t.Fatal(err)
	}
	address = "10.0.0.2:7"
	if err := w.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	effects.Wait()
	if !w.mark.Of(membership.Ref{Node: "a", Address: address}) {
		t.Error("it is not found where it is")
	}
	w.mark.Remove()
	if left, err := os.ReadDir(w.mark.Dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// standing is a node of one worker.
func standing(t *testing.T) (*workers, worker.Spec, *scope.Scope) {
	t.Helper()
	dir := t.TempDir()
	logs, err := output.Open(
		output.Options{Dir: filepath.Join(dir, "log"), Notice: func(s string) { t.Log(s) }})
	if err != nil {
		t.Fatal(err)
	}
	var effects scope.Scope
	w := &workers{dir: dir, logs: logs, mark: &saves.Mark{}, effects: &effects,
		notice: func(s string) { t.Log(s) }}
	w.job.Store(&rendezvous.Job{Slots: 1})
	spec := w.spec()
	spec.Node, spec.Generation, spec.Ranks, spec.WorldSize = "a", 2, []int{0}, 1
	spec.Argv, spec.Env, spec.Dir, spec.RunDir = []string{"/bin/sh", "-c", "exit 0"}, [][]string{nil}, dir,
		filepath.Join(dir, "run")
	t.Cleanup(func() {
		w.close()
		effects.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := proc.Sweep(ctx, spec.Mark); err != nil {
			t.Error(err)
		}
	})
	return w, spec, &effects
}

// An agent that tries again to join sweeps again. The sweep does not end the guardian that the
// first try is starting.
func TestASweepEndsNoGuardianThatIsBeingMade(t *testing.T) {
	w, spec, effects := standing(t)
	for range 10 {
		for range 2 {
			if err := w.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		effects.Wait()
		g, err := w.take().Start(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		<-g.Done()
	}
}

// A new attempt of the job may have more workers a node than the one that this node prepared for.
func TestAPreparedGuardianOfAnotherSize(t *testing.T) {
	w, spec, effects := standing(t)
	if err := w.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	effects.Wait()
	if w.prepared == nil {
		t.Fatal("no guardian stands by")
	}
	spec.Ranks, spec.WorldSize, spec.Env = []int{0, 1}, 2, [][]string{nil, nil}
	for range 2 { // the next one as well
		g, err := w.startProcesses(t.Context(), launch.Inputs{Waits: true}, spec)
		if err != nil {
			t.Fatal(err)
		}
		<-g.Done()
		effects.Wait()
	}
}
