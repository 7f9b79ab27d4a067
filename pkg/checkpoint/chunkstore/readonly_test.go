package chunkstore

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

func TestShelfVerifies(t *testing.T) {
	memfs.OnEach(t, func(t *testing.T, make func() dirfs.FS) {
		from, kept := make(), make()
		memfs.Model(t, from)
		s := storeOn(t, kept)
		m, h := put(t, s, from, 1, 1)
		memfs.WriteFile(t, from, "more", memfs.Bytes(7, 10), 0o600)
		_, second := put(t, s, from, 1, 2)

		shelf := NewReadOnly(kept)
		held, err := shelf.Held()
		must(t, err)
		if len(held) != 2 || !slices.Contains(held, h) || !slices.Contains(held, second) {
			t.Errorf("held: %v", held)
		}
		got, bad, err := shelf.Verify(t.Context(), h)
		if err != nil || bad != nil || got.Bytes() != m.Bytes() {
			t.Fatalf("verify: %v, %v", bad, err)
		}

		// What two files share is damaged in both; nothing is mended or removed.
		shared := m.Files[slices.IndexFunc(m.Files,
			func(f manifest.File) bool { return f.Path == "step-1/model.pt" })].Chunks[1]
		flip(t, kept, shared)
		before := memfs.Contents(t, kept)
		shelf = NewReadOnly(kept)
		want := []Damage{{"step-1/deep/er/optimizer.pt", 0, shared}, {"step-1/model.pt", manifest.ChunkSize, shared}}
		for _, h := range held {
			if _, bad, err = shelf.Verify(t.Context(), h); err != nil || !slices.Equal(bad, want) {
				t.Errorf("verify: %v, %v", bad, err)
			}
		}
		memfs.WriteFile(t, kept, "manifests/"+h.String(), []byte("{"), 0o600)
		before["manifests/"+h.String()] = "-rw------- {"
		if got, bad, err = shelf.Verify(t.Context(), h); err != nil || got != nil || len(bad) != 1 ||
			bad[0] != (Damage{}) {
			t.Errorf("a damaged manifest: %v, %v", bad, err)
		}
		if _, err := shelf.Manifest(t.Context(), h); !errors.Is(err, ErrDamaged) {
			t.Errorf("a damaged manifest is given out: %v", err)
		}
		if d := cmp.Diff(before, memfs.Contents(t, kept)); d != "" {
			t.Errorf("looking changed something: %s", d)
		}
		if _, _, err := shelf.Verify(t.Context(), manifest.Hash{1}); !errors.Is(err, ErrNotHeld) {
			t.Errorf("what is not there: %v", err)
		}
	})
}

// The owner removes a checkpoint while it is read: that is no damage.
func TestReadOnlyStoreOfARunningNode(t *testing.T) {
	from, kept := memfs.New(), memfs.New()
	memfs.Model(t, from)
	_, h := put(t, storeOn(t, kept), from, 1, 1)
	shelf := NewReadOnly(&retiring{FS: kept, manifest: manifestDir + "/" + h.String()})
	if _, bad, err := shelf.Verify(t.Context(), h); !errors.Is(err, ErrNotHeld) {
		t.Errorf("verify: %v, %v", bad, err)
	}
}

// retiring is a tree whose owner removes the manifest, and then each chunk, when it is asked for.
type retiring struct {
	dirfs.FS
	manifest string
}

func (r *retiring) Open(name string) (dirfs.File, error) {
	if !strings.HasPrefix(name, chunkDir) {
		return r.FS.Open(name)
	}
	err := r.FS.Remove(r.manifest)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := r.FS.Remove(name); err != nil {
		return nil, err
	}
	return r.FS.Open(name)
}
