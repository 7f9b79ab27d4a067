package checkpoint

import (
	"slices"
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/schema"
)

// holdPart puts a part of a save on the disk, and the manifest of the save. The other part is on
// another disk.
func holdPart(t *testing.T, s *chunkstore.Store, world schema.Order, sequence uint64) manifest.Head {
	t.Helper()
	from := memfs.New()
	memfs.WriteFile(t, from, "shard_0", memfs.Bytes(uint64(world)+sequence, 100), 0o600)
	save := checkpointtest.SaveOf(t, from, 2, sequence)
	save.World, save.Part, save.Of = world, true, "a"
	m, own, err := s.Put(t.Context(), save)
	must(t, err)
	whole, other := *m, manifest.Hash{1}
	whole.Part, whole.Of, whole.Parts = false, "", []manifest.Hash{own, other}
	raw, h := whole.Encode()
	must(t, s.HoldParts(t.Context(), chunkstore.Partial{Generation: 2, Manifest: raw,
		Parts: []manifest.Hash{own}}))
	return manifest.Head{Number: 5, Order: world + 5, Generation: 2, Manifest: h, Copies: 1,
		Parts: []manifest.HeldPart{{Manifest: own}, {Manifest: other}}}
}

// The parts of a commit were brought together before it, so its record names none. A disk that has
// only parts lists them.
func TestSalvageOfPartsThatTheRecordDoesNotName(t *testing.T) {
	for _, c := range []struct {
		what string
		know func(*chunkstore.Store, manifest.Head) Known
	}{
		{"from memory", func(_ *chunkstore.Store, h manifest.Head) Known { return Known{Head: h} }},
		{"from the disk", func(s *chunkstore.Store, h manifest.Head) Known {
			must(t, s.NoteCommitted([]manifest.Head{h}))
			return Known{}
		}},
	} {
		disk := memfs.New()
		s := checkpointtest.OpenStore(t, disk)
		h := holdPart(t, s, 20, 1)
		parts := h.Parts
		h.Parts = nil
		found, err := Salvage(t.Context(), readonly.New(disk), c.know(s, h))
		if err != nil || len(found.Parts) != 1 || len(found.Parts[0].Parts) != 1 ||
			found.Parts[0].Head.Parts[1].Manifest != parts[1].Manifest {
			t.Errorf("the commit is known %s: %+v, %v", c.what, found, err)
		}
	}
}

// A disk that has all of a capture does not list its parts.
func TestSalvageOfPartsThatWereBroughtTogether(t *testing.T) {
	disk, from := memfs.New(), memfs.New()
	s := checkpointtest.OpenStore(t, disk)
	memfs.WriteFile(t, from, "shard_0", memfs.Bytes(1, 100), 0o600)
	save := checkpointtest.SaveOf(t, from, 2, 1)
	save.Part, save.Of = true, "a"
	m, own, err := s.Put(t.Context(), save)
	must(t, err)
	m.Part, m.Of, m.Parts = false, "", []manifest.Hash{own}
	raw, h := m.Encode()
	must(t, s.HoldParts(t.Context(), chunkstore.Partial{Generation: 2, Manifest: raw,
		Parts: []manifest.Hash{own}}))
	if missing, err := s.Offer(t.Context(), 2, raw); err != nil || len(missing) > 0 {
		t.Fatalf("missing: %v, %v", missing, err)
	}
	found, err := Salvage(t.Context(), readonly.New(disk), Known{World: 2})
	if err != nil || found.Newest == nil || found.Newest.Manifest != h || found.Others != nil {
		t.Errorf("found %+v, %v", found, err)
	}
}

// A capture in parts counts without its commit if it is of the newest World, and later than all
// commits on the disk.
func TestSalvageOfCapturesInParts(t *testing.T) {
	for _, c := range []struct {
		what      string
		committed int // of three captures; 0: none
		known     bool
		world     schema.Order
		counts    []uint64 // sequences
	}{
		{"nothing is committed", 0, false, 20, []uint64{1, 2, 3}},
		{"the second one is", 2, false, 20, []uint64{3}},
		{"the second one is, and only memory tells", 2, true, 20, []uint64{3}},
		{"there was a later World", 0, false, 30, nil},
		{"an earlier one was restored since", 1, true, 20, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			disk := memfs.New()
			s := checkpointtest.OpenStore(t, disk)
			var heads []manifest.Head
			for sequence := range uint64(3) {
				heads = append(heads, holdPart(t, s, 20, sequence+1))
			}
			known := Known{World: 2, Order: c.world}
			if c.known {
				known.Head = heads[c.committed-1]
				known.Head.Restored = c.counts == nil
			} else if c.committed > 0 {
				must(t, s.NoteCommitted(heads[c.committed-1:c.committed]))
			}
			found, err := Salvage(t.Context(), readonly.New(disk), known)
			must(t, err)
			if want := min(c.committed, 1); len(found.Parts) != want || found.Newest != nil {
				t.Errorf("found %+v", found)
			}
			if len(found.Others) != 3-len(found.Parts) {
				t.Errorf("%d other checkpoints", len(found.Others))
			}
			var counts []uint64
			for _, o := range found.Others {
				if h := o.Captured; h != nil {
					counts = append(counts, o.Sequence)
					if h.Copies != 0 || len(h.Parts) != 2 || h.Manifest != o.Manifest ||
						c.committed > 0 && (h.Number != 6 || h.Order != 26) {
						t.Errorf("capture %d would be %+v", o.Sequence, h)
					}
				}
			}
			slices.Sort(counts)
			if !slices.Equal(counts, c.counts) {
				t.Errorf("captures %v count, want %v", counts, c.counts)
			}
			for _, p := range found.Parts {
				if p.Sequence != uint64(c.committed) {
					t.Errorf("the commit is capture %d", p.Sequence)
				}
			}
		})
	}
}
