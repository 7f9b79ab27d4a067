package memfs

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// WriteFile writes a file, and makes its directory. It replaces an existing file.
func WriteFile(t testing.TB, tree dirfs.FS, name string, data []byte, mode fs.FileMode) {
	t.Helper()
	d := dirfs.Disk{FS: tree}
	if i := strings.LastIndex(name, "/"); i > 0 {
		must(t, tree.Mkdir(name[:i], 0o755))
	}
	must(t, d.Discard(name))
	must(t, d.Write(name, mode, d.From(bytes.NewReader(data))))
}

// Contents returns the mode and the bytes of every file of a tree.
func Contents(t testing.TB, from dirfs.FS) map[string]string {
	t.Helper()
	all := map[string]string{}
	files, err := Files(from)
	must(t, err)
	for _, f := range files {
		raw, err := (&dirfs.Disk{FS: from}).ReadFile(f.Path, 1<<30)
		must(t, err)
		all[f.Path] = f.Mode.String() + " " + string(raw)
	}
	return all
}

// Bytes returns n random bytes. The same seed gives the same bytes.
func Bytes(seed uint64, n int) []byte {
	b := make([]byte, n)
	var s [32]byte
	binary.LittleEndian.PutUint64(s[:], seed)
	rand.NewChaCha8(s).Read(b)
	return b
}

// Model writes a checkpoint with difficult files: several chunks, the same chunk twice, an empty
// file, and names that sort close to "/".
func Model(t testing.TB, to dirfs.FS) {
	t.Helper()
	a, zero := Bytes(1, manifest.ChunkSize), make([]byte, manifest.ChunkSize)
	WriteFile(t, to, "step-1/model.pt", slices.Concat(a, zero, Bytes(2, 1000), zero[:10]), 0o644)
	WriteFile(t, to, "step-1/deep/er/optimizer.pt", slices.Concat(zero, a), 0o600)
	WriteFile(t, to, "step-1/empty", nil, 0o640)
	WriteFile(t, to, "step-1.json", []byte(`{"step":1}`), 0o777)
	WriteFile(t, to, "step-", []byte("before a slash"), 0o400)
}

// OnEach runs f with trees of the real file system, and with trees in memory.
func OnEach(t *testing.T, f func(t *testing.T, make func() dirfs.FS)) {
	t.Run("disk", func(t *testing.T) {
		f(t, func() dirfs.FS {
			d, err := dirfs.Open(t.TempDir())
			must(t, err)
			t.Cleanup(func() { d.Close() })
			return d
		})
	})
	t.Run("memory", func(t *testing.T) { f(t, func() dirfs.FS { return New() }) })
}

// Files lists every file of a tree, by path.
func Files(from dirfs.FS) (files []dirfs.Found, err error) {
	list, err := from.ReadDir(".")
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		more, err := dirfs.Walk(from, e.Name(), nil)
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	slices.SortFunc(files, func(a, b dirfs.Found) int { return strings.Compare(a.Path, b.Path) })
	return files, nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
