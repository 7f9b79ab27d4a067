package worker

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/elasticd/elastic/internal/worker/proc"
)

func prepare(t *testing.T, s Spec, workers int) *Prepared {
	t.Helper()
	p, err := Prepare(Spec{Mark: s.Mark, Logs: s.Logs, Guardian: s.Guardian}, workers)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A guardian that stood by starts what it is given when it is given, and the log has the line of that
// start.
func TestPreparedStarts(t *testing.T) {
	t.Parallel()
	s := shell(t, 2, "echo worker $i is here; exec sleep 1000")
	p := prepare(t, s, 2)
	if log, err := os.ReadFile(s.Logs.Path(0)); err == nil && len(log) > 0 {
		t.Errorf("a start that has not been is in the log: %s", log)
	}
	s.Generation = 7
	g, err := p.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	said(t, s.Logs, 0, "worker 0 is here")
	said(t, s.Logs, 1, "worker 1 is here")
	if log := read(t, s.Logs.Path(0)); strings.Count(log, "---- elastic: generation 7, rank 0") != 1 {
		t.Errorf("the log: %s", log)
	}
	if err := g.Stop(deadline(t), 0); err != nil {
		t.Error(err)
	}
	nothingLeft(t, s.Mark)
}

// One that was killed while it stood by starts nothing, and says so: the caller starts another.
func TestPreparedThatIsGone(t *testing.T) {
	t.Parallel()
	s := shell(t, 1, "exec sleep 1000")
	p := prepare(t, s, 1)
	if err := p.g.guardian.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the guardian is gone",
		func() bool { x, ok := proc.Find(p.g.guardian.Pid); return !ok || x.Gone() })
	if _, err := p.Start(t.Context(), s); !errors.Is(err, ErrNoGuardian) {
		t.Errorf("it started, or: %v", err)
	}
	nothingLeft(t, s.Mark)
}

func TestPreparedForOthers(t *testing.T) {
	t.Parallel()
	s := shell(t, 2, "exec sleep 1000")
	if _, err := prepare(t, s, 1).Start(t.Context(), s); !errors.Is(err, os.ErrInvalid) {
		t.Errorf("two workers, prepared for one: %v", err)
	}
	prepare(t, s, 2).Close()
	nothingLeft(t, s.Mark)
}
