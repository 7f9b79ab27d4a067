package files

import (
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
)

// A directory that the kernel does not watch makes the notices deaf until the next Begin.
func TestADirectoryThatIsNotWatchedMakesDeaf(t *testing.T) {
	disk, err := dirfs.Make(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	n := New(nil)
	if n == nil {
		t.Fatal("the kernel gives no notices")
	}
	defer n.Close()
	tree := n.Of(disk)
	defer tree.Close()
	read := func(want bool) {
		t.Helper()
		n.Begin()
		if _, err := tree.ReadDir("."); err != nil {
			t.Fatal(err)
		}
		if n.All() != want {
			t.Errorf("all directories are watched: %t, want %t", !want, want)
		}
	}
	read(true)
	if err := n.queue.Close(); err != nil {
		t.Fatal(err)
	}
	read(false)
}
