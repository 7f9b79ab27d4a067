package capture

import (
	"syscall"
	"testing"
)

func mkfifo(t *testing.T, name string) {
	t.Helper()
	must(t, syscall.Mkfifo(name, 0o600))
}
