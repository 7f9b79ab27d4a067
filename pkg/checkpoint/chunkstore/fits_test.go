package chunkstore

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/restore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
)

// The disks of a node must have room for the chunks that it lacks and for the files that differ,
// before it fetches the first byte. A disk that has both must have room for both.
func TestFits(t *testing.T) {
	const size = 1 << 20
	from := memfs.New()
	memfs.WriteFile(t, from, "model.pt", make([]byte, size), 0o600)
	has := storeOn(t, memfs.New())
	m, _ := put(t, has, from, 1, 1)
	for _, x := range []struct {
		name        string
		chunks, dir int64 // room on the disk of each
		holds, fits bool
	}{
		{"room on both", 3 * size / 2, 3 * size / 2, false, true},
		{"no room for chunks", size / 2, 2 * size, false, false},
		{"no room for files", 2 * size, size / 2, false, false},
		{"chunks are there", size / 2, 2 * size, true, true},
	} {
		disk, dir := memfs.New(), memfs.New()
		s := storeOn(t, disk)
		if x.holds {
			put(t, s, from, 1, 1)
		}
		disk.Set(nil, dirfs.SparedSpace+x.chunks)
		dir.Set(nil, dirfs.SparedSpace+x.dir)
		files, err := restore.Needed(t.Context(), dir, m, s)
		must(t, err)
		if err := s.Fits(m, other{dir}, files); (err == nil) != x.fits || err != nil && !errors.Is(err, dirfs.ErrNoSpace) {
			t.Errorf("%s: %v", x.name, err)
		}
		if err := s.Fits(m, dir, files); x.name == "room on both" && err == nil {
			t.Error("one disk has room for chunks or for files")
		}
	}
}

// other is a tree on another disk.
type other struct{ dirfs.FS }

func (other) Lstat(string) (fs.FileInfo, error) { return nil, fs.ErrNotExist }

// Two directories of one file system are on one disk.
func TestSameDisk(t *testing.T) {
	a, err := dirfs.Make(t.TempDir())
	must(t, err)
	b, err := dirfs.Make(t.TempDir())
	must(t, err)
	if !dirfs.SameDisk(a, b) || dirfs.SameDisk(a, memfs.New()) {
		t.Error("the disks are mistaken")
	}
}
