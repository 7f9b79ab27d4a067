package outside

import (
	"os/exec"
	"syscall"
	"testing"
)

// Start starts a cluster: a script that runs until it gets SIGTERM. At the end of t it calls last, ends the
// cluster and waits for that. The cluster gets SIGTERM when the process of the test dies, too.
func Start(t testing.TB, cluster *exec.Cmd, last func()) {
	t.Helper()
	cluster.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cluster.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cluster.Wait() // the cleanup ends it by a signal
	}()
	t.Cleanup(func() {
		last()
		_ = cluster.Process.Signal(syscall.SIGTERM)
		<-ended
	})
}
