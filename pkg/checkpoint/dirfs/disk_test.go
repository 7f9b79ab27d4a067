package dirfs_test

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
)

// A disk whose directory lost its name takes nothing more, and is still read.
func TestAnAbandonedDisk(t *testing.T) {
	d := dirfs.NewDisk(memfs.New(), "")
	if err := d.WriteFile(".", "before", []byte("x")); err != nil {
		t.Fatal(err)
	}
	d.Abandon()
	if err := d.WriteFile(".", "after", nil); !errors.Is(err, dirfs.ErrQuarantined) {
		t.Errorf("it is written to: %v", err)
	}
	if b, err := d.ReadFile("before", 10); err != nil || string(b) != "x" {
		t.Errorf("it reads %q, %v", b, err)
	}
}

// A disk that failed to sync twice takes nothing more. A full disk, a directory that may not be
// opened and a process without free descriptors are no failures of the disk.
func TestWhatCountsAsAFailureOfTheDisk(t *testing.T) {
	for err, want := range map[error]bool{syscall.ENOSPC: false, syscall.EACCES: false, syscall.EMFILE: false,
		syscall.EIO: true} {
		d := dirfs.NewDisk(memfs.New(), "")
		for range 3 {
			if got := d.CountFailure(&fs.PathError{Op: "openat", Err: err}); !errors.Is(got, err) {
				t.Errorf("%v: %v is returned", err, got)
			}
		}
		if got := d.WriteFile(".", "file", nil); errors.Is(got, dirfs.ErrQuarantined) != want {
			t.Errorf("after three times %v: %v", err, got)
		}
	}
}
