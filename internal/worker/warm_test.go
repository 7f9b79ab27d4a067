package worker

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/elasticd/elastic/internal/worker/proc"
)

// warmedMain is a worker that prints whether it was warm, and its variables.
func warmedMain() int {
	begin := os.Environ()
	how := "cold"
	if os.Getenv("HOOK") != "" {
		how = "warm"
		begin = waitForWorld(os.Getenv("HOOK"))
	}
	for _, kv := range begin {
		if strings.HasPrefix(kv, "value=") || strings.HasPrefix(kv, "HOOK=") {
			fmt.Println(how, kv)
		}
	}
	fmt.Println("begun")
	select {}
}

// waitForWorld is the side of a process that waits. how: "wait", "busy" or "refuse".
func waitForWorld(how string) []string {
	control := os.NewFile(WarmFD, "control")
	if how != "busy" {
		control.Write([]byte("w"))
	}
	if exec.Command("/bin/sleep", "1000").Start() != nil { // by it the test sees how far this one is
		os.Exit(1)
	}
	if how == "busy" {
		select {}
	}
	var length [4]byte
	if _, err := io.ReadFull(control, length[:]); err != nil {
		os.Exit(0)
	}
	variables := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(control, variables); err != nil || how == "refuse" {
		os.Exit(0)
	}
	control.Write([]byte("y"))
	if _, err := io.ReadFull(control, length[:1]); err != nil || length[0] != 'g' {
		os.Exit(0)
	}
	return strings.Split(strings.TrimSuffix(string(variables), "\x00"), "\x00")
}

// warmed is a group of n workers that may wait for their World; value is what they are given.
func warmed(t *testing.T, n int, value string) Spec {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := shell(t, n, "")
	s.Argv = []string{exe, "__warmed"}
	for i := range s.Env {
		s.Env[i] = append(s.Env[i], "value="+value, "fixed=1")
	}
	return s
}

func warmUp(t *testing.T, p *Prepared, s Spec, how string) {
	t.Helper()
	w := Warming{Late: func(name string) bool { return name == "value" }}
	for range s.Env {
		w.Hook = append(w.Hook, []string{"HOOK=" + how})
	}
	if err := p.Warm(s, w); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the processes wait", func() bool { n, _ := p.Waiting(); return n == 2*len(s.Env) })
}

func TestWarmProcessesBecomeWorkers(t *testing.T) {
	both(t, func(t *testing.T, noCgroup bool) {
		s := warmed(t, 2, "old")
		s.NoCgroup = noCgroup
		p := prepare(t, s, 2)
		warmUp(t, p, s, "wait")
		if _, bytes := p.Waiting(); bytes == 0 {
			t.Error("they have no memory")
		}
		later := s
		later.Generation, later.Env = 7, nil
		for _, env := range s.Env {
			later.Env = append(later.Env, overlay(env, []string{"value=new"}))
		}
		g := startWarm(t, p, later)
		for i := range 2 {
			said(t, s.Logs, i, "begun")
			if got := body(read(t, s.Logs.Path(i))); got != "warm value=new\nbegun\n" {
				t.Errorf("worker %d: %q", i, got)
			}
		}
		for _, pid := range g.PIDs() {
			signalPID(t, pid, syscall.SIGTERM)
		}
		for _, e := range exitsOf(t, g) {
			if e.Signal != "SIGTERM" || e.Ours {
				t.Errorf("it ended: %+v", e)
			}
		}
	})
}

// startWarm starts a group, and ends it after the test with all that it started.
func startWarm(t *testing.T, p *Prepared, s Spec) *Group {
	t.Helper()
	g, err := p.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Stop(deadline(t), 0); err != nil {
			t.Error(err)
		}
		nothingLeft(t, s.Mark)
	})
	return g
}

// A process that cannot be the worker is ended, with all that it started, and another one is
// started in its place.
func TestWarmProcessesThatDoNotFit(t *testing.T) {
	for _, c := range []struct {
		name, how string
		change    func(s *Spec)
	}{
		{"another value of a variable that is read early", "wait",
			func(s *Spec) { s.Env[0] = overlay(s.Env[0], []string{"fixed=2"}) }},
		{"a variable more", "wait", func(s *Spec) { s.Env[0] = append(s.Env[0], "more=1") }},
		{"other arguments", "wait", func(s *Spec) { s.Argv = append(s.Argv, "--more") }},
		{"another directory", "wait", func(s *Spec) { s.Dir = "/" }},
		{"it does not wait yet", "busy", func(*Spec) {}},
		{"it refuses", "refuse", func(*Spec) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := warmed(t, 1, "old")
			p := prepare(t, s, 1)
			warmUp(t, p, s, c.how)
			before := allBelow(t, p.g.guardian.Pid)[1:]
			c.change(&s)
			startWarm(t, p, s)
			said(t, s.Logs, 0, "begun")
			if got := body(read(t, s.Logs.Path(0))); got != "cold value=old\nbegun\n" {
				t.Errorf("%q", got)
			}
			disappear(t, before)
		})
	}
}

// One that was killed while it waited is replaced, and none of the others is.
func TestWarmProcessThatIsGone(t *testing.T) {
	t.Parallel()
	s := warmed(t, 2, "old")
	p := prepare(t, s, 2)
	warmUp(t, p, s, "wait")
	all := allBelow(t, p.g.guardian.Pid)
	for _, x := range all[1:] {
		if x.Parent == p.g.guardian.Pid {
			signalPID(t, x.PID, syscall.SIGKILL)
			eventually(t, "it is gone", func() bool { now, ok := proc.Find(x.PID); return !ok || now.Gone() })
			break
		}
	}
	startWarm(t, p, s)
	said(t, s.Logs, 0, "begun")
	said(t, s.Logs, 1, "begun")
	both := []string{body(read(t, s.Logs.Path(0))), body(read(t, s.Logs.Path(1)))}
	slices.Sort(both)
	if want := []string{"cold value=old\nbegun\n", "warm value=old\nbegun\n"}; !slices.Equal(both, want) {
		t.Errorf("%q", both)
	}
}

// Nothing is left of processes that wait: neither where they are not needed, nor after the
// guardian.
func TestWarmProcessesEnd(t *testing.T) {
	both(t, func(t *testing.T, noCgroup bool) {
		for name, end := range map[string]func(p *Prepared){
			"closed": func(p *Prepared) { p.Close() },
			"the guardian is killed": func(p *Prepared) {
				signalPID(t, p.g.guardian.Pid, syscall.SIGKILL)
				p.Close()
			},
			"the agent is gone": func(p *Prepared) {
				p.g.conn.Close()
				p.g.guardian.Wait()
			},
		} {
			t.Run(name, func(t *testing.T) {
				s := warmed(t, 2, "old")
				s.NoCgroup = noCgroup
				p := prepare(t, s, 2)
				warmUp(t, p, s, "wait")
				end(p)
				nothingLeft(t, s.Mark)
				p.g.finish()
			})
		}
	})
}
