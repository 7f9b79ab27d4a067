package readonly_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

func TestVerify(t *testing.T) {
	memfs.OnEach(t, func(t *testing.T, make func() dirfs.FS) {
		from, kept := make(), make()
		memfs.Model(t, from)
		s := checkpointtest.OpenStore(t, kept)
		m, h := checkpointtest.Put(t, s, from, 1, 1)
		memfs.WriteFile(t, from, "more", memfs.Bytes(7, 10), 0o600)
		_, second := checkpointtest.Put(t, s, from, 1, 2)

		store := readonly.New(kept)
		held, err := store.Held()
		must(t, err)
		if len(held) != 2 || !slices.Contains(held, h) || !slices.Contains(held, second) {
			t.Errorf("held: %v", held)
		}
		got, bad, err := store.Verify(t.Context(), h)
		if err != nil || bad != nil || got.Bytes() != m.Bytes() {
			t.Fatalf("verify: %v, %v", bad, err)
		}

		// A chunk that two files share is damaged in both; nothing is mended or removed.
		shared := m.Files[slices.IndexFunc(m.Files,
			func(f manifest.File) bool { return f.Path == "step-1/model.pt" })].Chunks[1]
		checkpointtest.Flip(t, kept, shared)
		before := memfs.Contents(t, kept)
		store = readonly.New(kept)
		want := []readonly.Damage{{Path: "step-1/deep/er/optimizer.pt", Chunk: shared},
			{Path: "step-1/model.pt", Offset: manifest.ChunkSize, Chunk: shared}}
		for _, h := range held {
			if _, bad, err = store.Verify(t.Context(), h); err != nil || !slices.Equal(bad, want) {
				t.Errorf("verify: %v, %v", bad, err)
			}
		}
		memfs.WriteFile(t, kept, "manifests/"+h.String(), []byte("{"), 0o600)
		before["manifests/"+h.String()] = "-rw------- {"
		if got, bad, err = store.Verify(t.Context(), h); err != nil || got != nil || len(bad) != 1 ||
			bad[0] != (readonly.Damage{}) {
			t.Errorf("a damaged manifest: %v, %v", bad, err)
		}
		if _, err := store.Manifest(t.Context(), h); !errors.Is(err, readonly.ErrDamaged) {
			t.Errorf("a damaged manifest is given out: %v", err)
		}
		if d := cmp.Diff(before, memfs.Contents(t, kept)); d != "" {
			t.Errorf("looking changed something: %s", d)
		}
		if _, _, err := store.Verify(t.Context(), manifest.Hash{1}); !errors.Is(err, readonly.ErrNotHeld) {
			t.Errorf("what is not there: %v", err)
		}
	})
}

// The owner removes a checkpoint while it is read: that is no damage.
func TestOwnerRemovesWhatIsVerified(t *testing.T) {
	from, kept := memfs.New(), memfs.New()
	memfs.Model(t, from)
	_, h := checkpointtest.Put(t, checkpointtest.OpenStore(t, kept), from, 1, 1)
	store := readonly.New(&retiring{FS: kept, manifest: readonly.Manifests + "/" + h.String()})
	if _, bad, err := store.Verify(t.Context(), h); !errors.Is(err, readonly.ErrNotHeld) {
		t.Errorf("verify: %v, %v", bad, err)
	}
}

// retiring is a tree whose owner removes the manifest, and then each chunk, when it is asked for.
type retiring struct {
	dirfs.FS
	manifest string
}

func (r *retiring) Open(name string) (dirfs.File, error) {
	if !strings.HasPrefix(name, readonly.Chunks) {
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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
