package worker

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/worker/proc"
)

func TestKilledAgentTakesEverythingAlong(t *testing.T) {
	both(t, func(t *testing.T, noCgroup bool) {
		s := shell(t, 2, `trap '' TERM HUP INT`+family)
		s.NoCgroup = noCgroup
		a := runAgent(t, s)
		all := members(t, a.guardian, 1+2*familySize)
		a.cmd.Process.Kill()
		disappear(t, all)
		for _, c := range proc.LeftCgroups(s.Mark.Cgroup()) {
			eventually(t, "cgroup is removed", func() bool {
				_, err := os.Stat(string(c))
				return errors.Is(err, os.ErrNotExist)
			})
		}
	})
}

// at(1) and its like start a process with our environment and none of our
// ancestors.
func TestKilledAgentTakesMarkedStrangersAlong(t *testing.T) {
	t.Parallel()
	s := shell(t, 1, `exec sleep 1000`)
	a := runAgent(t, s)
	worker := members(t, a.guardian, 2)[1]
	var value string
	eventually(t, "the mark is there", func() bool {
		value, _ = worker.Environ(proc.MarkVariable)
		return value != ""
	})
	stranger := exec.Command("/bin/sh", "-c", "sleep 1000 & wait")
	stranger.Env = []string{"PATH=" + os.Getenv("PATH"), proc.MarkVariable + "=" + value}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	all := members(t, stranger.Process.Pid, 2)
	a.cmd.Process.Kill()
	var exit *exec.ExitError
	if err := stranger.Wait(); !errors.As(err, &exit) {
		t.Fatal(err)
	}
	disappear(t, all)
}

// A frozen guardian cannot kill, but it holds nothing of the agent either:
// `elastic run … | tee` ends. The next agent finds it.
func TestSweepTakesWhatAFrozenGuardianLeft(t *testing.T) {
	t.Parallel()
	lock, inherited, err := os.Pipe() // a descriptor that the agent did not ask for
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	s := shell(t, 1, family)
	a := runAgent(t, s, slices.Repeat([]*os.File{inherited}, 20)...) // more than the guardian's own numbers
	inherited.Close()
	all := members(t, a.guardian, 1+familySize)
	signalPID(t, a.guardian, syscall.SIGSTOP)
	a.cmd.Process.Kill()
	if _, err := io.ReadAll(a.out); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(lock); err != nil {
		t.Fatal(err)
	}
	if err := proc.Sweep(deadline(t), proc.MarkOf("elsewhere")); err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if _, ok := proc.Find(p.PID); !ok {
			t.Fatal("a sweep for another mark took it")
		}
	}
	if err := proc.Sweep(deadline(t), s.Mark); err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if now, ok := proc.Find(p.PID); ok && now.Start == p.Start && !now.Gone() {
			t.Errorf("process %d outlived Sweep", p.PID)
		}
	}
}

// With agent and guardian killed at once, workers die with the guardian, and
// what they started is found by its mark.
func TestSweepAfterBothWereKilled(t *testing.T) {
	both(t, func(t *testing.T, noCgroup bool) {
		s := shell(t, 1, `setsid sleep 1000 & (setsid sh -c 'sleep 1001 & wait' &) ; wait`)
		s.NoCgroup = noCgroup
		a := runAgent(t, s)
		all := members(t, a.guardian, 5)
		signalPID(t, a.guardian, syscall.SIGSTOP) // so that it does not see the agent's end
		a.cmd.Process.Kill()
		a.cmd.Wait()
		signalPID(t, a.guardian, syscall.SIGKILL)
		disappear(t, all[:2])
		if err := proc.Sweep(deadline(t), s.Mark); err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if now, ok := proc.Find(p.PID); ok && now.Start == p.Start && !now.Gone() {
				t.Errorf("process %d outlived Sweep", p.PID)
			}
		}
		if left := proc.LeftCgroups(s.Mark.Cgroup()); len(left) > 0 {
			t.Errorf("cgroups are left: %v", left)
		}
	})
}

func TestSweepSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	s := shell(t, 1, `exec sleep 1000`)
	a := runAgent(t, s)
	signalPID(t, a.guardian, syscall.SIGSTOP) // so that it is left, whatever else
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := proc.Sweep(ctx, s.Mark); !errors.Is(err, context.Canceled) ||
		!strings.Contains(err.Error(), "process") {
		t.Fatal(err)
	}
}

func TestKilledGuardianIsReplacedByTheAgent(t *testing.T) {
	both(t, func(t *testing.T, noCgroup bool) {
		s := shell(t, 2, `
sleep 1000 &
setsid sleep 1001 &
(setsid sh -c 'sleep 1002 & exec sleep 1003' &)
env -i sleep 1004 &
wait`)
		s.NoCgroup = noCgroup
		g := begin(t, s)
		all := members(t, g.guardian.Pid, 1+2*6)
		signalPID(t, g.guardian.Pid, syscall.SIGKILL)
		for i, e := range exitsOf(t, g) { // it was not asked to end
			if e.Ours || e.Signal != "SIGKILL" || e.Note == "" {
				t.Errorf("worker %d: %+v", i, e)
			}
		}
		<-g.Done()
		for _, p := range all {
			if now, ok := proc.Find(p.PID); ok && now.Start == p.Start && !now.Gone() {
				t.Errorf("process %d outlived the group", p.PID)
			}
		}
		if err := g.Stop(deadline(t), time.Hour); err != nil {
			t.Error(err)
		}
		if left := proc.LeftCgroups(s.Mark.Cgroup()); len(left) > 0 {
			t.Errorf("cgroups are left: %v", left)
		}
	})
}

func TestGuardianIgnoresTheTerminal(t *testing.T) {
	t.Parallel()
	s := shell(t, 1, `exec sleep 1000`)
	g := begin(t, s)
	p, _ := proc.Find(g.guardian.Pid)
	if p.Session != p.PID {
		t.Error("the guardian is in our session")
	}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		signalPID(t, p.PID, sig)
	}
	if err := g.Ask(deadline(t), Drain{Reason: "scale"}); err != nil { // still answers
		t.Fatal(err)
	}
	if e := exitsOf(t, g)[0]; e.Signal != "SIGTERM" || !e.Ours {
		t.Errorf("%+v", e)
	}
}

func TestFrozenGuardianIsWokenToStop(t *testing.T) {
	t.Parallel()
	s := shell(t, 1, patient(`echo bye; exit 0`))
	g := begin(t, s)
	said(t, s.Logs, 0, "up")
	signalPID(t, g.guardian.Pid, syscall.SIGSTOP)
	if err := g.Stop(deadline(t), time.Hour); err != nil {
		t.Fatal(err)
	}
	if e := exitsOf(t, g)[0]; e.Code != 0 || string(e.Tail) != "up\nbye\n" {
		t.Errorf("%+v", e)
	}
}

// A guardian that neither works nor dies of itself is killed, and the agent
// does its work.
func TestHungGuardianIsReplaced(t *testing.T) {
	t.Parallel()
	s := shell(t, 1, family)
	g := begin(t, s)
	all := members(t, g.guardian.Pid, 1+familySize)
	freeze, thawed := context.WithCancel(context.Background())
	frozen := make(chan struct{})
	go func() { // whatever wakes it
		defer close(frozen)
		for freeze.Err() == nil {
			g.guardian.Signal(syscall.SIGSTOP)
		}
	}()
	err := g.Stop(deadline(t), 0)
	thawed()
	<-frozen
	if err != nil {
		t.Fatal(err)
	}
	disappear(t, all)
}

// The agent is killed while the worker goes on writing: what the worker got
// rid of is in its log.
func TestKilledAgentLosesNoOutput(t *testing.T) {
	t.Parallel()
	s := shell(t, 1, `echo before; read x < fifo; seq 1 20000; echo end > done; exec sleep 1000`)
	open := gate(t, s, "fifo")
	a := runAgent(t, s)
	eventually(t, "first line", func() bool { return strings.Contains(a.log(0), "before\n") })
	signalPID(t, a.cmd.Process.Pid, syscall.SIGSTOP) // it reads nothing more
	open()
	eventually(t, "worker has written", func() bool { _, err := os.Stat(s.Dir + "/done"); return err == nil })
	a.cmd.Process.Kill()
	want, err := exec.Command("seq", "1", "20000").Output()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "log is whole", func() bool { return body(a.log(0)) == "before\n"+string(want) })
}

// Killed at any moment while the worker writes as fast as it can: the log is
// a prefix of what it wrote, and no line is missing inside.
func TestKilledAgentLeavesNoHole(t *testing.T) {
	t.Parallel()
	for range 10 {
		s := shell(t, 1, `i=1; while :; do echo $i; i=$((i+1)); done`)
		a := runAgent(t, s)
		eventually(t, "some output", func() bool { return len(a.log(0)) > 1<<15 })
		all := allBelow(t, a.guardian)
		a.cmd.Process.Kill()
		a.cmd.Wait()
		disappear(t, all)
		want := int64(1)
		log := body(a.log(0))
		for line := range strings.Lines(log[:strings.LastIndexByte(log, '\n')+1]) {
			n := int64(0)
			for _, d := range line[:len(line)-1] {
				n = 10*n + int64(d-'0')
			}
			if n != want {
				t.Fatalf("line %q after %d", line, want-1)
			}
			want++
		}
	}
}
