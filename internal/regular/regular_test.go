package regular_test

import (
	"errors"
	"io/fs"
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

// scene is a directory with everything that can lie in wait for a writer.
func scene(t *testing.T) (path func(string) string) {
	t.Helper()
	dir := t.TempDir()
	path = func(name string) string { return filepath.Join(dir, name) }
	victim := filepath.Join(t.TempDir(), "victim")
	err := errors.Join(os.WriteFile(victim, []byte("precious"), 0o600),
		os.WriteFile(path("file"), []byte("old"), 0o600),
		os.WriteFile(path("foreign"), []byte("old"), 0o666),
		syscall.Mkfifo(path("pipe"), 0o600),
		os.Symlink(victim, path("link")), os.Symlink(path("none"), path("dangling")),
		os.Link(path("file"), path("second name")), os.WriteFile(path("one"), nil, 0o600))
	if os.Geteuid() == 0 {
		err = errors.Join(err, os.Chown(path("foreign"), 65534, 65534))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if b, err := os.ReadFile(victim); err != nil || string(b) != "precious" {
			t.Errorf("a file elsewhere was written: %q, %v", b, err)
		}
	})
	return path
}

// A writer gets a file of its own, or an error; it never waits, and never writes elsewhere.
func TestWrite(t *testing.T) {
	path := scene(t)
	for name, want := range map[string]error{"one": nil, "new": nil, "pipe": regular.ErrNotRegular,
		"link": regular.ErrNotRegular, "dangling": regular.ErrNotRegular,
		"second name": regular.ErrNotRegular, "file": regular.ErrNotRegular,
		"foreign": regular.ErrForeign, "no/dir": fs.ErrNotExist} {
		if name == "foreign" && os.Geteuid() != 0 {
			continue // only root can make one
		}
		f, err := regular.Write(path(name), os.O_WRONLY|os.O_TRUNC)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if err == nil {
			f.Close()
		}
	}
	if b, err := os.ReadFile(path("file")); err != nil || string(b) != "old" {
		t.Errorf("a refused file was emptied: %q, %v", b, err)
	}
}

// Whatever has the name is replaced, and not written to.
func TestReplace(t *testing.T) {
	path := scene(t)
	for _, name := range []string{"file", "pipe", "link", "dangling", "foreign", "new"} {
		if err := regular.Replace(path(name), []byte("new")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if b, err := regular.Read(path(name), 3); err != nil || string(b) != "new" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if b, err := os.ReadFile(path("second name")); err != nil || string(b) != "old" {
		t.Errorf("the other name of a replaced file: %q, %v", b, err)
	}
	if left, err := filepath.Glob(path(".*~")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestReadIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("1234"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := regular.Read(path, 3); !errors.Is(err, regular.ErrTooLarge) {
		t.Error(err)
	}
	if _, err := regular.Read("/dev/zero", 3); !errors.Is(err, regular.ErrNotRegular) {
		t.Error(err)
	}
}

// A secret that others can read or write is none.
func TestReadSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: true, 0o644: false,
		0o660: false, 0o602: false} {
		if err := errors.Join(os.WriteFile(path, []byte("x"), 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		if _, err := regular.ReadSecret(path); (err == nil) != ok || err != nil &&
			!errors.Is(err, regular.ErrForeign) {
			t.Errorf("%v: %v", mode, err)
		}
	}
}
