package checkpoint

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/pkg/membership"
)

// exportOf is Export into a tree.
func exportOf(t testing.TB, m *Manifest, to tree, from ...Source) error {
	t.Helper()
	return exportTo(t.Context(), m, from, &disk{tree: to, scratch: own})
}

func TestExport(t *testing.T) {
	onEach(t, func(t *testing.T, make func() tree) {
		from, kept := make(), make()
		model(t, from)
		b := storeOn(t, kept)
		_, h := put(t, b, from, 1, 1)
		c := &direct{stores: map[string]*Store{"b": b}}
		for name, s := range map[string]Source{"shelf": newShelf(kept), "distant": &Distant{Peers: c, Node: membership.Ref{Node: "b"}}} {
			m, err := FindManifest(t.Context(), h, []Source{newShelf(make()), s})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			to := make()
			fileIn(t, to, own+"all/step-1/model.pt", []byte("of one that was interrupted"), 0o600)
			must(t, exportOf(t, m, to, s))
			if d := cmp.Diff(contents(t, from), contents(t, to)); d != "" {
				t.Errorf("%s: %s", name, d)
			}
			if err := exportOf(t, m, to, s); !errors.Is(err, ErrNotEmpty) {
				t.Errorf("%s: over what is there: %v", name, err)
			}
		}
		if _, err := FindManifest(t.Context(), h, []Source{liar{}}); !errors.Is(err, ErrDamaged) {
			t.Errorf("from one who sends other bytes: %v", err)
		}
		if _, err := FindManifest(t.Context(), Hash{1}, []Source{newShelf(kept)}); !errors.Is(err, ErrNotHeld) || errors.Is(err, ErrDamaged) {
			t.Errorf("what nobody has: %v", err)
		}
	})
}

func TestExportTakesNothingDamaged(t *testing.T) {
	from, one, two := newMem(), newMem(), newMem()
	model(t, from)
	a, b := storeOn(t, one), storeOn(t, two)
	m, _ := put(t, a, from, 1, 1)
	put(t, b, from, 1, 1)
	flip(t, a, m.Files[0].Chunks[0])
	must(t, one.Remove(chunkPath(m.Files[1].Chunks[0])))
	to := newMem()
	must(t, exportOf(t, m, to, newShelf(one), newShelf(two)))
	if d := cmp.Diff(contents(t, from), contents(t, to)); d != "" {
		t.Error(d)
	}
	flip(t, b, m.Files[0].Chunks[0])
	to = newMem()
	if err := exportOf(t, m, to, newShelf(one), newShelf(two)); !errors.Is(err, ErrDamaged) {
		t.Errorf("with both damaged: %v", err)
	}
	if left := contents(t, to); len(left) > 0 {
		t.Errorf("left behind: %v", slices.Collect(maps.Keys(left)))
	}
	if err := exportOf(t, m, newMem(), liar{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("from one who sends other bytes: %v", err)
	}
	to = newMem()
	to.set(nil, 100)
	if err := exportOf(t, m, to, newShelf(two)); !errors.Is(err, ErrNoSpace) {
		t.Errorf("without room: %v", err)
	}
}

// liar has everything, and all of it is something else.
type liar struct{}

func (liar) Manifest(context.Context, Hash) ([]byte, error)    { return []byte("{}"), nil }
func (liar) Chunk(_ context.Context, _ Hash, dst []byte) error { clear(dst); dst[0] = 1; return nil }

// Whatever operation is the last one, a file that has its name has its bytes, and who finds no name can begin again.
func TestEveryFaultOfExport(t *testing.T) {
	from, kept := newMem(), newMem()
	fileIn(t, from, "step-1/model.bin", bytesOf(1, 3000), 0o600)
	fileIn(t, from, "step-1/sub/optimizer.bin", bytesOf(2, 3000), 0o640)
	fileIn(t, from, "latest", []byte("step-1"), 0o600)
	m, _ := put(t, storeOn(t, kept), from, 1, 1)
	want := contents(t, from)
	for at := int64(1); ; at++ {
		f, to := &fault{at: at, kind: "crash"}, newMem()
		to.hook = func(string, string) error { return f.step("a") }
		err := exportOf(t, m, to, newShelf(kept))
		if !f.hit.Load() {
			must(t, err)
			t.Logf("%d operations", at-1)
			return
		}
		if err == nil {
			t.Errorf("operation %d failed and nobody minded", at)
		}
		for _, ours := range []bool{false, true} {
			after := to.crash(names(ours))
			named := 0
			for name, got := range contents(t, after) {
				if strings.HasPrefix(name, own) {
					continue
				}
				if named++; got != want[name] {
					t.Errorf("operation %d: torn file %s", at, name)
				}
			}
			if err := exportOf(t, m, after, newShelf(kept)); named > 0 != errors.Is(err, ErrNotEmpty) {
				t.Errorf("operation %d: with %d files there: %v", at, named, err)
			} else if d := cmp.Diff(want, contents(t, after)); named == 0 && d != "" {
				t.Errorf("operation %d: %s", at, d)
			}
		}
	}
}

func TestShelfVerifies(t *testing.T) {
	onEach(t, func(t *testing.T, make func() tree) {
		from, kept := make(), make()
		model(t, from)
		s := storeOn(t, kept)
		m, h := put(t, s, from, 1, 1)
		fileIn(t, from, "more", bytesOf(7, 10), 0o600)
		_, second := put(t, s, from, 1, 2)

		shelf := newShelf(kept)
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
		shared := m.Files[slices.IndexFunc(m.Files, func(f File) bool { return f.Path == "step-1/model.pt" })].Chunks[1]
		flip(t, s, shared)
		before := contents(t, kept)
		shelf = newShelf(kept)
		want := []Damage{{"step-1/deep/er/optimizer.pt", 0, shared}, {"step-1/model.pt", ChunkSize, shared}}
		for _, h := range held {
			if _, bad, err = shelf.Verify(t.Context(), h); err != nil || !slices.Equal(bad, want) {
				t.Errorf("verify: %v, %v", bad, err)
			}
		}
		fileIn(t, kept, "manifests/"+h.String(), []byte("{"), 0o600)
		before["manifests/"+h.String()] = "-rw------- {"
		if got, bad, err = shelf.Verify(t.Context(), h); err != nil || got != nil || len(bad) != 1 || bad[0] != (Damage{}) {
			t.Errorf("a damaged manifest: %v, %v", bad, err)
		}
		if _, err := shelf.Manifest(t.Context(), h); !errors.Is(err, ErrDamaged) {
			t.Errorf("a damaged manifest is given out: %v", err)
		}
		if d := cmp.Diff(before, contents(t, kept)); d != "" {
			t.Errorf("looking changed something: %s", d)
		}
		if _, _, err := shelf.Verify(t.Context(), Hash{1}); !errors.Is(err, ErrNotHeld) {
			t.Errorf("what is not there: %v", err)
		}
	})
}

// The owner removes a checkpoint while it is read: that is no damage.
func TestShelfWhoseOwnerIsAtWork(t *testing.T) {
	from, kept := newMem(), newMem()
	model(t, from)
	_, h := put(t, storeOn(t, kept), from, 1, 1)
	shelf := newShelf(&retiring{tree: kept, manifest: manifestDir + "/" + h.String()})
	if _, bad, err := shelf.Verify(t.Context(), h); !errors.Is(err, ErrNotHeld) {
		t.Errorf("verify: %v, %v", bad, err)
	}
}

// retiring is a tree whose owner removes the manifest, and then each chunk, when it is asked for.
type retiring struct {
	tree
	manifest string
}

func (r *retiring) Open(name string) (file, error) {
	if !strings.HasPrefix(name, chunkDir) {
		return r.tree.Open(name)
	}
	err := r.tree.Remove(r.manifest)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := r.tree.Remove(name); err != nil {
		return nil, err
	}
	return r.tree.Open(name)
}

// A node that does not answer costs its limit once, not for each chunk.
func TestDistantWhoIsAway(t *testing.T) {
	asked := 0
	d := &Distant{Node: membership.Ref{Node: "b"}, Peers: &direct{hook: func(string, string) error { asked++; return errCrash }}}
	for range 3 {
		if err := d.Chunk(t.Context(), Hash{1}, nil); !errors.Is(err, errCrash) {
			t.Errorf("got %v", err)
		}
	}
	if _, err := d.Manifest(t.Context(), Hash{1}); !errors.Is(err, errCrash) || asked != 1 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	d = &Distant{Node: membership.Ref{Node: "b"}, Peers: &direct{hook: func(string, string) error { asked++; return ErrNotHeld }}}
	asked = 0
	for range 3 {
		_ = d.Chunk(t.Context(), Hash{1}, nil)
	}
	if asked != 3 {
		t.Errorf("who has not one chunk was asked %d times for 3", asked)
	}
}

func TestExportEnds(t *testing.T) {
	from, kept := newMem(), newMem()
	model(t, from)
	m, _ := put(t, storeOn(t, kept), from, 1, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := exportTo(ctx, m, []Source{newShelf(kept)}, &disk{tree: newMem(), scratch: own}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
