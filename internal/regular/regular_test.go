package regular_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/elasticd/elastic/internal/regular"
)

// A pipe without a writer, a directory and a device are refused at once, also behind a link.
func TestOpenNeverWaits(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(path("file"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"link": path("pipe"), "device": "/dev/zero",
		"good": path("file")} {
		if err := os.Symlink(to, path(name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, ok := range map[string]bool{"file": true, "good": true, "pipe": false, "link": false,
		"device": false, ".": false, "none": false} {
		f, err := regular.Open(path(name))
		if (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			f.Close()
		}
	}
}
