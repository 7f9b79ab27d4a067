package chunkstore

import (
	"bytes"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/restore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/schema"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The helpers of checkpointtest, which imports this package.

func storeOn(t testing.TB, fs dirfs.FS) *Store {
	t.Helper()
	s, err := OpenFS(fs)
	must(t, err)
	return s
}

func saveOf(t testing.TB, from dirfs.FS, g schema.Generation, seq uint64) Save {
	t.Helper()
	files, err := memfs.Files(from)
	must(t, err)
	stamp := manifest.Stamp{Job: "x", UID: "u1", Generation: g, WorldSize: 2}
	return Save{Stamp: stamp, Sequence: seq, Time: time.Now(), Files: files, Dir: from}
}

func put(
	t testing.TB, s *Store, from dirfs.FS, g schema.Generation, seq uint64,
) (*manifest.Manifest, manifest.Hash) {
	t.Helper()
	m, h, err := s.Put(t.Context(), saveOf(t, from, g, seq))
	must(t, err)
	return m, h
}

// restoreTo puts the files of a checkpoint back into a tree.
func restoreTo(t testing.TB, s *Store, h manifest.Hash, to dirfs.FS) error {
	t.Helper()
	m, err := s.Manifest(h)
	must(t, err)
	return restore.Files(t.Context(), to, m, s)
}

func flip(t testing.TB, of dirfs.FS, h manifest.Hash) {
	t.Helper()
	name, d := readonly.ChunkPath(h), dirfs.NewDisk(of, "")
	raw, err := d.ReadFile(name, manifest.ChunkSize)
	must(t, err)
	raw[len(raw)/2] ^= 1
	must(t, of.Remove(name))
	must(t, d.Write(name, 0o600, d.From(bytes.NewReader(raw))))
}
