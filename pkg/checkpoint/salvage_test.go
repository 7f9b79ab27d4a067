package checkpoint

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/late"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/layout"
	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/schema"
)

func TestSalvage(t *testing.T) {
	for _, c := range []struct {
		what  string
		prep  func(t *testing.T, s *chunkstore.Store, disk *memfs.FS, all []manifest.Hash)
		g     schema.Generation
		whole int             // of the captures (1,1) (1,2) (2,1) (2,2): which is the newest
		as    manifest.Number // and its number
		heads int
	}{
		{"what was committed last", func(*testing.T, *chunkstore.Store, *memfs.FS, []manifest.Hash) {},
			0, 2, 2, 2},
		{"what was captured later, in the newest generation", func(*testing.T, *chunkstore.Store, *memfs.FS,
			[]manifest.Hash) {
		}, 2, 4, 3, 2},
		{"and not what an older one left",
			func(*testing.T, *chunkstore.Store, *memfs.FS, []manifest.Hash) {}, 3, 2, 2, 2},
		{"what is whole", func(t *testing.T, s *chunkstore.Store, disk *memfs.FS, all []manifest.Hash) {
			for _, h := range []manifest.Hash{all[3], all[1]} {
				m, err := s.Manifest(h)
				must(t, err)
				checkpointtest.Flip(t, disk, m.Files[0].Chunks[0])
			}
		}, 2, 3, 3, 2},
		{"nothing", func(t *testing.T, s *chunkstore.Store, disk *memfs.FS, all []manifest.Hash) {
			for _, h := range all {
				m, err := s.Manifest(h)
				must(t, err)
				checkpointtest.Flip(t, disk, m.Files[0].Chunks[0])
			}
		}, 2, 0, 0, 2},
		{"after a fall-back nothing of before it", func(t *testing.T, s *chunkstore.Store, disk *memfs.FS,
			all []manifest.Hash) {
			must(t, s.NoteCommitted([]manifest.Head{{Number: 1, Order: 10, Generation: 1, Manifest: all[0]},
				{Number: 2, Order: 20, Generation: 2, Manifest: all[2]},
				{Number: 3, Order: 30, Generation: 1, Manifest: all[1]}}))
		}, 2, 2, 3, 3},
		{"what was committed last, and not the larger number", func(t *testing.T, s *chunkstore.Store,
			disk *memfs.FS, all []manifest.Hash) {
			must(t, s.NoteCommitted([]manifest.Head{{Number: 1, Order: 10, Generation: 1, Manifest: all[0]},
				{Number: 4, Order: 15, Generation: 1, Manifest: all[1]},
				{Number: 2, Order: 20, Generation: 2, Manifest: all[2]}}))
		}, 0, 3, 2, 3},
		{"and a capture that follows it", func(t *testing.T, s *chunkstore.Store, disk *memfs.FS,
			all []manifest.Hash) {
			must(t, s.NoteCommitted([]manifest.Head{{Number: 1, Order: 10, Generation: 1, Manifest: all[0]},
				{Number: 4, Order: 15, Generation: 1, Manifest: all[1]},
				{Number: 2, Order: 20, Generation: 2, Manifest: all[2]}}))
		}, 2, 4, 3, 3},
		{"what the operator restored, and no capture that follows it", func(t *testing.T, s *chunkstore.Store,
			disk *memfs.FS, all []manifest.Hash) {
			must(t, s.NoteCommitted([]manifest.Head{{Number: 1, Order: 10, Generation: 1, Manifest: all[0]},
				{Number: 2, Order: 20, Generation: 2, Manifest: all[2], Restored: true}}))
		}, 2, 3, 2, 2},
	} {
		t.Run(c.what, func(t *testing.T) {
			disk, from := memfs.New(), memfs.New()
			s := checkpointtest.OpenStore(t, disk)
			var all []manifest.Hash
			for i, at := range []struct{ Generation, Sequence int }{{1, 1}, {1, 2}, {2, 1}, {2, 2}} {
				memfs.WriteFile(t, from, "model.pt", memfs.Bytes(uint64(i), 100), 0o600)
				_, h := checkpointtest.Put(t, s, from, schema.Generation(at.Generation), uint64(at.Sequence))
				all = append(all, h)
			}
			must(t, s.NoteCommitted([]manifest.Head{{Number: 1, Order: 10, Generation: 1, Manifest: all[0]},
				{Number: 2, Order: 20, Generation: 1, Manifest: all[1]}}))
			c.prep(t, s, disk, all)
			found, err := Salvage(t.Context(), readonly.New(disk), Known{World: c.g})
			must(t, err)
			heads, newest := found.Committed, found.Newest
			if len(heads) != c.heads {
				t.Errorf("%d commits, want %d", len(heads), c.heads)
			}
			switch {
			case c.whole == 0 && newest == nil:
			case c.whole == 0 || newest == nil || newest.Manifest != all[c.whole-1] || newest.Number != c.as,
				slices.ContainsFunc(heads, newest.Before):
				t.Errorf("newest %+v, want capture %d as number %d", newest, c.whole, c.as)
			}
			if want := []uint64{0, 1, 2, 1, 2}[c.whole]; found.Sequence != want {
				t.Errorf("sequence %d, want %d", found.Sequence, want)
			}
		})
	}
	if found, err := Salvage(t.Context(), readonly.New(memfs.New()), Known{World: 1}); err != nil ||
		found.Committed != nil || found.Newest != nil || found.Parts != nil {
		t.Errorf("an empty disk: %+v %v", found, err)
	}
}

// A file that the disk does not read is no damage: what else there is is found, and that one is named.
func TestSalvageOfADiskThatDoesNotRead(t *testing.T) {
	disk, from := memfs.New(), memfs.New()
	s := checkpointtest.OpenStore(t, disk)
	var heads []manifest.Head
	var files []string // of each checkpoint, its manifest and a chunk
	for n := range 2 {
		memfs.WriteFile(t, from, "model.pt", memfs.Bytes(uint64(n), 100), 0o600)
		m, h := checkpointtest.Put(t, s, from, 1, uint64(n+1))
		heads = append(heads, manifest.Head{Number: manifest.Number(n + 1), Generation: 1, Manifest: h})
		files = append(files, "manifests/"+h.String(), layout.ChunkPath(m.Files[0].Chunks[0]))
	}
	must(t, s.NoteCommitted(heads))
	for _, c := range []struct {
		file   string
		newest manifest.Number
		unread bool
	}{{"", 2, false}, {files[1], 2, false}, {files[2], 1, true}, {files[3], 1, true}} {
		found, err := Salvage(t.Context(), readonly.New(&failing{FS: disk, file: c.file}), Known{World: 1})
		if err != nil || len(found.Committed) != 2 || found.Newest == nil ||
			found.Newest.Number != c.newest || errors.Is(found.Unread, syscall.EACCES) != c.unread {
			t.Errorf("%s cannot be read: %+v, %v", c.file, found, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if found, err := Salvage(ctx, readonly.New(disk), Known{World: 1}); err == nil {
		t.Errorf("it was ended: %+v", found)
	}
}

// A capture of another World of the same generation, from before the store was set back, does not
// count.
func TestSalvageOfTwoWorldsOfOneGeneration(t *testing.T) {
	disk, from := memfs.New(), memfs.New()
	s := checkpointtest.OpenStore(t, disk)
	for i, world := range []schema.Order{20, 10} {
		memfs.WriteFile(t, from, "model.pt", memfs.Bytes(uint64(i), 100), 0o600)
		save := checkpointtest.SaveOf(t, from, 2, uint64(i+1))
		save.World = world
		_, _, err := s.Put(t.Context(), save)
		must(t, err)
	}
	for _, k := range []Known{{World: 2, Order: 20}, {World: 2, Order: 10}} {
		found, err := Salvage(t.Context(), readonly.New(disk), k)
		must(t, err)
		if want := map[schema.Order]uint64{20: 1, 10: 2}[k.Order]; found.Newest == nil ||
			found.Sequence != want || found.Newest.Order != k.Order+1 {
			t.Errorf("of the World of order %d: %+v, capture %d", k.Order, found.Newest, found.Sequence)
		}
	}
	if found, err := Salvage(t.Context(), readonly.New(disk), Known{World: 2, Order: 30}); err != nil ||
		found.Newest != nil {
		t.Errorf("of a third World: %+v, %v", found.Newest, err)
	}
}

// A job was made again from a capture, and lost once more before the disk has a note of that.
func TestSalvageKnowsTheHead(t *testing.T) {
	disk, from := memfs.New(), memfs.New()
	s := checkpointtest.OpenStore(t, disk)
	memfs.WriteFile(t, from, "model.pt", memfs.Bytes(1, 100), 0o600)
	_, old := checkpointtest.Put(t, s, from, 1, 1)
	memfs.WriteFile(t, from, "model.pt", memfs.Bytes(2, 100), 0o600)
	_, captured := checkpointtest.Put(t, s, from, 1, 2)
	must(t, s.NoteCommitted([]manifest.Head{{Number: 5, Generation: 1, Manifest: old}}))
	head := manifest.Head{Number: 7, Generation: 1, Manifest: captured}
	found, err := Salvage(t.Context(), readonly.New(disk), Known{Head: head})
	if err != nil || len(found.Committed) != 2 || found.Newest == nil || found.Newest.Number != 7 {
		t.Errorf("found %+v, %v", found, err)
	}
}

// failing is a tree of which one file cannot be read.
type failing struct {
	dirfs.FS
	file string
}

func (f *failing) Open(name string) (dirfs.File, error) {
	if name == f.file {
		return nil, syscall.EACCES
	}
	return f.FS.Open(name)
}

// A node comes late to a job that went on under its uid, from scratch or from checkpoint 1: the newest
// checkpoint that it knows is kept, to be offered, and counts under its number no more.
func TestComeLate(t *testing.T) {
	at := func(step int64) *int64 { return &step }
	for _, head := range []manifest.Head{{Number: 1, Order: 40, Step: at(10)}, {Number: 1, Order: 40},
		{Number: 7, Order: 40, Step: at(15)}, {Number: 7, Order: 15}} {
		comeLate(t, head, func(disk *memfs.FS) error { return late.TruncateIn(disk, head) }, 1)
	}
}

// A node comes to a job that was made again from a checkpoint with a larger number, which was committed
// earlier. The node keeps what was committed since then, to offer it.
func TestComeToAJobOfAnOlderCheckpoint(t *testing.T) {
	adopted := manifest.Head{Number: 9, Order: 25}
	comeLate(t, adopted, func(disk *memfs.FS) error { return late.KeepIn(disk, adopted) }, 3)
}

func comeLate(t *testing.T, head manifest.Head, come func(*memfs.FS) error, newest manifest.Number) {
	t.Helper()
	disk, from := memfs.New(), memfs.New()
	s := checkpointtest.OpenStore(t, disk)
	var heads []manifest.Head
	for n := range 3 {
		memfs.WriteFile(t, from, "model.pt", memfs.Bytes(uint64(n), 100), 0o600)
		_, h := checkpointtest.Put(t, s, from, 1, uint64(n+1))
		heads = append(heads, manifest.Head{Number: manifest.Number(n + 1), Order: schema.Order(10 * (n + 1)),
			Generation: 1, Manifest: h, Step: new(int64(10 * (n + 1)))})
	}
	must(t, s.NoteCommitted(heads))
	must(t, come(disk))
	s = checkpointtest.OpenStore(t, disk)
	if kept, err := s.Late(); err != nil || kept == nil || kept.Manifest != heads[2].Manifest {
		t.Errorf("head %d: late %+v, %v", head.Number, kept, err)
	}
	if noted, ok := s.Newest(); !ok || noted.Number != newest {
		t.Errorf("head %d: newest %+v", head.Number, noted)
	}
}
