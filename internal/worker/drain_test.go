package worker

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// What an agent left in its stage was written before what it left in the pipe of the worker.
func TestTheGuardianWritesTheStageFirst(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	holding := func(text string) int {
		var fd [2]int
		if err := unix.Pipe2(fd[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd[0]); unix.Close(fd[1]) })
		if _, err := unix.Write(fd[1], []byte(text)); err != nil {
			t.Fatal(err)
		}
		return fd[0]
	}
	if err := os.WriteFile(log, []byte("in the log\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := &guardian{spec: &startOrder{Streams: []streamOrder{
		{Read: holding("in the pipe\n"), Staged: holding("on its way\n"), Log: log}}}}
	g.drain()
	if got := read(t, log); got != "in the log\non its way\nin the pipe\n" {
		t.Errorf("%q", got)
	}
}
