package worker

import (
	"context"
	"encoding/json"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/elasticd/elastic/internal/worker/proc"
)

// saver catches SIGTERM, needs its helper to save, and then ends.
const saver = `trap 'echo saving; cat $drain; kill -0 $helper && echo helper lives; kill $helper; exit 0' TERM
sleep 1000 & helper=$!
echo up
wait`

func TestAskCatchingWorker(t *testing.T) {
	both(t, func(t *testing.T, noCgroup bool) {
		s := shell(t, 2, saver)
		s.NoCgroup = noCgroup
		g := begin(t, s)
		said(t, s.Logs, 0, "up")
		said(t, s.Logs, 1, "up")
		if _, err := os.Stat(s.DrainFile()); err == nil {
			t.Fatal("drain file before it was asked for")
		}
		if err := g.Ask(deadline(t), Drain{Reason: "scale", GraceSeconds: 30}); err != nil {
			t.Fatal(err)
		}
		if err := g.Stop(deadline(t), time.Hour); err != nil { // the grace ends with the workers
			t.Fatal(err)
		}
		for i, e := range exitsOf(t, g) {
			if e.Code != 0 || !e.Ours {
				t.Errorf("worker %d: %+v", i, e)
			}
			want := "up\nsaving\n{\"reason\":\"scale\",\"grace_seconds\":30}\nhelper lives\n"
			if got := body(read(t, s.Logs.Path(i))); got != want {
				t.Errorf("worker %d said %q, want %q", i, got, want)
			}
		}
	})
}

// A script that does not handle SIGTERM is asked with its whole process group,
// and the process in it that saves has the grace.
func TestAskDefaultWorker(t *testing.T) {
	t.Parallel()
	s := shell(t, 1,
		`sh -c 'trap "echo saving; read x < fifo; echo saved; kill -9 \$helper 2>/dev/null; exit 0" TERM
sleep 1000 & helper=$!; echo up; wait'; echo never`)
	open := gate(t, s, "fifo")
	g := begin(t, s)
	said(t, s.Logs, 0, "up")
	if err := g.Ask(deadline(t), Drain{Reason: "drain", GraceSeconds: 0.5}); err != nil {
		t.Fatal(err)
	}
	if e := exitsOf(t, g)[0]; e.Signal != "SIGTERM" || e.Code != 143 || !e.Ours {
		t.Fatalf("%+v", e)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- g.Stop(deadline(t), time.Hour) }()
	said(t, s.Logs, 0, "saving")
	open()
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if got := body(read(t, s.Logs.Path(0))); got != "up\nsaving\nsaved\n" {
		t.Errorf("%q", got)
	}
}

// A worker that ignores SIGTERM gets none, nor do its children; it reads the file.
func TestAskIgnoringWorker(t *testing.T) {
	t.Parallel()
	s := shell(t, 1, `trap '' TERM
sh -c 'trap - TERM; echo up; exec sleep 1000' & # stays ignored: POSIX
while ! test -e $drain; do sleep 0.01; done
cat $drain; exit 5`)
	g := begin(t, s)
	said(t, s.Logs, 0, "up")
	if err := g.Ask(deadline(t), Drain{Reason: "stop", GraceSeconds: 2.5}); err != nil {
		t.Fatal(err)
	}
	if e := exitsOf(t, g)[0]; e.Code != 5 || !e.Ours || e.Signal != "" {
		t.Errorf("%+v", e)
	}
	if got, want := body(read(t, s.Logs.Path(0))),
		"up\n{\"reason\":\"stop\",\"grace_seconds\":2.5}\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if err := g.Stop(deadline(t), time.Hour); err != nil { // its helper is no reason to wait
		t.Fatal(err)
	}
}

// A second SIGTERM would break off the save.
func TestStopAfterAskSendsNoSecondSignal(t *testing.T) {
	t.Parallel()
	s := shell(t, 1, `trap 'echo term' TERM; echo up
while :; do sleep 1000 & wait; done`)
	g := begin(t, s)
	said(t, s.Logs, 0, "up")
	if err := g.Ask(deadline(t), Drain{}); err != nil {
		t.Fatal(err)
	}
	said(t, s.Logs, 0, "term")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.Stop(ctx, time.Hour)
	if err := g.Stop(deadline(t), 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if got := body(read(t, s.Logs.Path(0))); got != "up\nterm\n" {
		t.Errorf("%q", got)
	}
	if e := exitsOf(t, g)[0]; e.Signal != "SIGKILL" || !e.Ours {
		t.Errorf("%+v", e)
	}
}

// A worker that ended before Ask counts as ended by itself, even if its exit is seen after Ask.
func TestExitBeforeAskIsItsOwn(t *testing.T) {
	t.Parallel()
	for range 8 { // the guardian wakes to both at once
		s := shell(t, 2, `test $i = 0 && { read x < fifo; exit 9; }; exec sleep 1000`)
		open := gate(t, s, "fifo")
		g := begin(t, s)
		worker, _ := proc.Find(g.PIDs()[0])
		signalPID(t, g.guardian.Pid, syscall.SIGSTOP)
		open()
		disappear(t, []proc.Process{worker}) // unreaped
		if err := g.Stop(deadline(t), time.Hour); err != nil {
			t.Fatal(err)
		}
		exits := exitsOf(t, g)
		if e := exits[0]; e.Ours || e.Code != 9 {
			t.Errorf("%+v", e)
		}
		if e := exits[1]; !e.Ours || e.Signal != "SIGTERM" {
			t.Errorf("%+v", e)
		}
	}
}

func TestAskAfterTheEnd(t *testing.T) {
	t.Parallel()
	s := shell(t, 1, `exit 0`)
	g := begin(t, s)
	<-g.Done()
	if err := g.Ask(deadline(t), Drain{}); err != nil {
		t.Error(err)
	}
}

func TestAskSaysWhenTheFileCannotBeWritten(t *testing.T) {
	t.Parallel()
	s := shell(t, 1, patient(`exit 0`))
	g := begin(t, s)
	said(t, s.Logs, 0, "up")
	if err := os.RemoveAll(s.RunDir); err != nil {
		t.Fatal(err)
	}
	if err := g.Ask(deadline(t), Drain{}); err == nil {
		t.Error("no error")
	}
	if e := exitsOf(t, g)[0]; e.Code != 0 { // the signal came all the same
		t.Errorf("%+v", e)
	}
}

// A worker may train on after a SIGTERM that is not the agent's, so the agent's own is announced.
func TestTheEndIsAnnounced(t *testing.T) {
	t.Parallel()
	s := shell(t, 1, patient(`test -e $drain.over && echo over; test -e $drain && echo asked; exit 0`))
	g := begin(t, s)
	said(t, s.Logs, 0, "up")
	if err := g.Stop(deadline(t), time.Hour); err != nil {
		t.Fatal(err)
	}
	if got := body(read(t, s.Logs.Path(0))); got != "up\nover\n" {
		t.Errorf("%q", got)
	}
}

func TestOldDrainFileIsRemoved(t *testing.T) {
	t.Parallel()
	s := shell(t, 1, `test -e $drain && echo old; test -e $drain.over && echo over`)
	if err := os.MkdirAll(s.RunDir, 0o700); err != nil {
		t.Fatal(err)
	}
	data, _ := json.Marshal(Drain{})
	for _, file := range []string{s.DrainFile(), s.DrainFile() + overSuffix} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g := begin(t, s)
	<-g.Done()
	if got := body(read(t, s.Logs.Path(0))); got != "" {
		t.Error(got)
	}
}
