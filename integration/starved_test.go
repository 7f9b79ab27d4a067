package integration

import (
	"fmt"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// Many other processes use the processors, so agents get little processor time. No node is lost.
// The test is not parallel, because it would slow down the others.
func TestStarved(t *testing.T) {
	others, nice := 20, 0
	if soak(t) > 1 {
		others, nice = 100, -10
	}
	p := newSandbox(t)
	p.daemons(1)
	p.undisturbed("elasticd", 5, func([]*proc) {
		busy := exec.CommandContext(t.Context(), "sh", "-c",
			fmt.Sprintf(`for i in $(seq %d); do nice -n %d sh -c 'while :; do :; done' & done; wait`, others, nice))
		busy.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		busy.Cancel = func() error { return syscall.Kill(-busy.Process.Pid, syscall.SIGKILL) }
		if err := busy.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(endure(t, 3*time.Second, 20*time.Second))
		if err := busy.Cancel(); err != nil {
			t.Error(err)
		}
		_ = busy.Wait() // an error: it was killed
	})
}
