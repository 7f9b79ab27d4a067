package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A server on a full disk prints an error, its reason and a fix, and no stack trace of etcd.
func TestServerOnAFullDisk(t *testing.T) {
	t.Parallel()
	p := newSandbox(t)
	small := filepath.Join(p.dir, "small")
	if err := os.Mkdir(small, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatalf("mount a small disk: %v: run this test as root", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(small, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	x := p.start(filepath.Join(bin, "elasticd"), "--name=a", "--data-dir="+filepath.Join(small, "data"))
	p.ends(x, 1)
	lines := strings.Split(strings.TrimSpace(x.stderr()), "\n")
	if len(lines) != 3 || !strings.HasSuffix(lines[0], "[E-DATA-DIR]") ||
		!strings.HasPrefix(lines[1], "  why: ") ||
		!strings.HasPrefix(lines[2], "  fix: ") {
		t.Errorf("it says\n%s", x.stderr())
	}
}
