package chunkstore_test

import (
	"encoding/json"
	"path"
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/restore"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// The version before wrote more fields into manifests. Its checkpoints are read, verified and restored.
func TestCheckpointsOfTheVersionBefore(t *testing.T) {
	disk, dir, to := memfs.New(), memfs.New(), memfs.New()
	memfs.WriteFile(t, dir, "model.raw", []byte("weights"), 0o600)
	memfs.WriteFile(t, dir, "optimizer.raw", []byte("moments"), 0o600)
	s := checkpointtest.OpenStore(t, disk)
	m, _ := checkpointtest.Put(t, s, dir, 1, 1)
	raw, now := m.Encode()
	fields := map[string]any{}
	must(t, json.Unmarshal(raw, &fields))
	fields["world"], fields["written"] = 7, []string{"model.raw", "optimizer.raw"}
	fields["reopened"] = []string{"model.raw"}
	raw, err := json.Marshal(fields)
	must(t, err)
	before := manifest.Sum(raw)
	must(t, s.Close())
	must(t, disk.Remove(path.Join(readonly.Manifests, now.String())))
	memfs.WriteFile(t, disk, path.Join(readonly.Manifests, before.String()), raw, 0o600)

	s = checkpointtest.OpenStore(t, disk)
	must(t, s.Verify(t.Context(), before))
	got, err := s.Manifest(before)
	must(t, err)
	must(t, restore.Files(t.Context(), to, got, s))
	for name, want := range memfs.Contents(t, dir) {
		if is := memfs.Contents(t, to)[name]; is != want {
			t.Errorf("%s: %q, want %q", name, is, want)
		}
	}
}
