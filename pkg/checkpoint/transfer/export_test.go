package transfer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/membership"
)

// exportOf is Export into a tree.
func exportOf(t testing.TB, m *manifest.Manifest, to dirfs.FS, from ...Source) error {
	t.Helper()
	return exportTo(t.Context(), m, from, to)
}

func TestExport(t *testing.T) {
	memfs.OnEach(t, func(t *testing.T, make func() dirfs.FS) {
		from, kept := make(), make()
		memfs.Model(t, from)
		b := checkpointtest.OpenStore(t, kept)
		_, h := checkpointtest.Put(t, b, from, 1, 1)
		c := &checkpointtest.Peers{Stores: map[string]*chunkstore.Store{"b": b}}
		for name, s := range map[string]Source{"disk": readonly.New(kept),
			"distant": &RemoteSource{Peers: c, Node: membership.Ref{Node: "b"}}} {
			m, err := FindManifest(t.Context(), h, []Source{readonly.New(make()), s})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			to := make()
			memfs.WriteFile(t, to, manifest.ReservedPrefix+"all/step-1/model.pt",
				[]byte("of one that was interrupted"), 0o600)
			must(t, exportOf(t, m, to, s))
			if d := cmp.Diff(memfs.Contents(t, from), memfs.Contents(t, to)); d != "" {
				t.Errorf("%s: %s", name, d)
			}
			if err := exportOf(t, m, to, s); !errors.Is(err, ErrNotEmpty) {
				t.Errorf("%s: over what is there: %v", name, err)
			}
		}
		if _, err := FindManifest(t.Context(), h, []Source{liar{}}); !errors.Is(err, chunkstore.ErrDamaged) {
			t.Errorf("from a node that sends other bytes: %v", err)
		}
		if _, err := FindManifest(t.Context(), manifest.Hash{1},
			[]Source{readonly.New(kept)}); !errors.Is(err, chunkstore.ErrNotHeld) ||
			errors.Is(err, chunkstore.ErrDamaged) {
			t.Errorf("a manifest that no node has: %v", err)
		}
	})
}

func TestExportTakesNothingDamaged(t *testing.T) {
	from, one, two := memfs.New(), memfs.New(), memfs.New()
	memfs.Model(t, from)
	a, b := checkpointtest.OpenStore(t, one), checkpointtest.OpenStore(t, two)
	m, _ := checkpointtest.Put(t, a, from, 1, 1)
	checkpointtest.Put(t, b, from, 1, 1)
	checkpointtest.Flip(t, one, m.Files[0].Chunks[0])
	must(t, one.Remove("chunks/"+m.Files[1].Chunks[0].String()))
	to := memfs.New()
	must(t, exportOf(t, m, to, readonly.New(one), readonly.New(two)))
	if d := cmp.Diff(memfs.Contents(t, from), memfs.Contents(t, to)); d != "" {
		t.Error(d)
	}
	last := m.Files[len(m.Files)-1].Chunks[0] // the files before it are written
	checkpointtest.Flip(t, one, last)
	checkpointtest.Flip(t, two, last)
	to = memfs.New()
	if err := exportOf(t, m, to, readonly.New(one), readonly.New(two)); !errors.Is(err,
		chunkstore.ErrDamaged) {
		t.Errorf("with both damaged: %v", err)
	}
	if left := memfs.Contents(t, to); len(left) > 0 {
		t.Errorf("left behind: %v", slices.Collect(maps.Keys(left)))
	}
	if err := exportOf(t, m, memfs.New(), liar{}); !errors.Is(err, chunkstore.ErrDamaged) {
		t.Errorf("from a node that sends other bytes: %v", err)
	}
	to = memfs.New()
	to.Set(nil, 100)
	if err := exportOf(t, m, to, readonly.New(two)); !errors.Is(err, dirfs.ErrNoSpace) {
		t.Errorf("without room: %v", err)
	}
}

// liar has everything, and all of it is something else.
type liar struct{}

func (liar) Manifest(context.Context, manifest.Hash) ([]byte, error) { return []byte("{}"), nil }
func (liar) Chunk(_ context.Context, _ manifest.Hash, dst []byte) error {
	clear(dst)
	dst[0] = 1
	return nil
}

// Whatever operation is the last one, a file that has its name has its bytes, and without the name
// the export can begin again.
func TestEveryFaultOfExport(t *testing.T) {
	from, kept := memfs.New(), memfs.New()
	memfs.WriteFile(t, from, "step-1/model.bin", memfs.Bytes(1, 3000), 0o600)
	memfs.WriteFile(t, from, "step-1/sub/optimizer.bin", memfs.Bytes(2, 3000), 0o640)
	memfs.WriteFile(t, from, "latest", []byte("step-1"), 0o600)
	m, _ := checkpointtest.Put(t, checkpointtest.OpenStore(t, kept), from, 1, 1)
	want := memfs.Contents(t, from)
	for at := int64(1); ; at++ {
		f, to := &checkpointtest.Fault{At: at, Kind: "crash"}, memfs.New()
		to.Machine.Hook = func(string, string) error { return f.Step("a") }
		err := exportOf(t, m, to, readonly.New(kept))
		if !f.Hit.Load() {
			must(t, err)
			t.Logf("%d operations", at-1)
			return
		}
		if err == nil {
			t.Errorf("operation %d failed without an error", at)
		}
		for _, ours := range []bool{false, true} {
			after := to.Crash(func() bool { return ours })
			named := 0
			for name, got := range memfs.Contents(t, after) {
				if strings.HasPrefix(name, manifest.ReservedPrefix) {
					continue
				}
				if named++; got != want[name] {
					t.Errorf("operation %d: torn file %s", at, name)
				}
			}
			if err := exportOf(t, m, after, readonly.New(kept)); named > 0 != errors.Is(err, ErrNotEmpty) {
				t.Errorf("operation %d: with %d files there: %v", at, named, err)
			} else if d := cmp.Diff(want, memfs.Contents(t, after)); named == 0 && d != "" {
				t.Errorf("operation %d: %s", at, d)
			}
		}
	}
}

// A node that does not answer costs its limit once, not for each chunk.
func TestRemoteSourceThatIsAway(t *testing.T) {
	asked := 0
	d := &RemoteSource{Node: membership.Ref{Node: "b"},
		Peers: &checkpointtest.Peers{Hook: func(string, string) error {
			asked++
			return checkpointtest.ErrCrash
		}}}
	for range 3 {
		if err := d.Chunk(t.Context(), manifest.Hash{1}, nil); !errors.Is(err, checkpointtest.ErrCrash) {
			t.Errorf("got %v", err)
		}
	}
	_, err := d.Manifest(t.Context(), manifest.Hash{1})
	if !errors.Is(err, checkpointtest.ErrCrash) || asked != 1 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	d = &RemoteSource{Node: membership.Ref{Node: "b"},
		Peers: &checkpointtest.Peers{Hook: func(string, string) error {
			asked++
			return chunkstore.ErrNotHeld
		}}}
	asked = 0
	for range 3 {
		_ = d.Chunk(t.Context(), manifest.Hash{1}, nil)
	}
	if asked != 3 {
		t.Errorf("a node without chunks was asked %d times for 3", asked)
	}
}

func TestExportEnds(t *testing.T) {
	from, kept := memfs.New(), memfs.New()
	memfs.Model(t, from)
	m, _ := checkpointtest.Put(t, checkpointtest.OpenStore(t, kept), from, 1, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := exportTo(ctx, m, []Source{readonly.New(kept)}, memfs.New()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
