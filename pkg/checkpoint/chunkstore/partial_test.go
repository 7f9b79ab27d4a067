package chunkstore

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/schema"
)

// putPart puts a part of a save of the node of.
func putPart(t *testing.T, s *Store, at manifest.Position, text string) (*manifest.Manifest, manifest.Hash) {
	t.Helper()
	from := memfs.New()
	memfs.WriteFile(t, from, "shard_"+at.Of, []byte(text), 0o600)
	save := saveOf(t, from, at.Generation, at.Sequence)
	save.Part, save.Of = true, at.Of
	m, h, err := s.Put(t.Context(), save)
	must(t, err)
	return m, h
}

// first is the position of the first capture of a node.
func first(of string) manifest.Position { return manifest.Position{Generation: 1, Sequence: 1, Of: of} }

// wholeOf is the manifest of a save of two parts.
func wholeOf(a, b *manifest.Manifest, parts ...manifest.Hash) *manifest.Manifest {
	m := *a
	m.Part, m.Of, m.Parts = false, "", parts
	m.Files = slices.Concat(a.Files, b.Files)
	return &m
}

// A node keeps its part of a checkpoint as long as that may be committed, and as long as its record is
// there, through a restart too; it does not say that it has all of it.
func TestHoldParts(t *testing.T) {
	disk := memfs.New()
	s, err := OpenFS(disk)
	must(t, err)
	mine, own := putPart(t, s, first("a"), "mine")
	away, err := OpenFS(memfs.New())
	must(t, err)
	other, theirs := putPart(t, away, first("b"), "theirs")
	raw, whole := wholeOf(mine, other, own, theirs).Encode()
	hold := func(parts ...manifest.Hash) error {
		return s.HoldParts(t.Context(), Partial{Generation: 1, Manifest: raw, Parts: parts})
	}
	if err := hold(own, theirs); !errors.Is(err, ErrNotHeld) || s.HasManifest(whole) {
		t.Fatalf("a part that is not here: %v", err)
	}
	must(t, hold(own))
	must(t, hold(own))
	check := func(what string, known, part bool) {
		t.Helper()
		if s.Has(whole) || s.HasManifest(whole) != known || s.Has(own) != part {
			t.Errorf("%s: has it %v, knows it %v, part %v", what, s.Has(whole), s.HasManifest(whole), s.Has(own))
		}
	}
	now := time.Now()
	must(t, s.DropParts(manifest.Position{Generation: 1, Sequence: 9, Of: "a"}))
	must(t, s.Retain(1, nil, nil, now))
	check("before its commit", true, true)
	s, err = OpenFS(disk.Crash(func() bool { return true }))
	must(t, err)
	check("after a crash", true, true)
	head := manifest.Head{Number: 1, Generation: 1, Manifest: whole, Copies: 1,
		Parts: []manifest.HeldPart{{Manifest: own, Holders: []string{"a"}},
			{Manifest: theirs, Holders: []string{"b"}}}}
	must(t, s.Retain(2, []manifest.Head{head}, nil, now))
	check("committed, in the next generation", true, true)
	if err := hold(own); !errors.Is(err, ErrFenced) {
		t.Errorf("behind the fence: %v", err)
	}
	if h, ok := s.Newest(); !ok || h.Number != 1 || s.Numbers() != nil || s.HasUncommitted() {
		t.Errorf("newest %+v, numbers %v, something uncommitted: %v", h, s.Numbers(), s.HasUncommitted())
	}
	must(t, s.Retain(2, nil, nil, now))
	check("its record was removed", false, false)
}

// Parts of a checkpoint without a known commit may still have been committed. They stay in newer
// generations until a later commit is on this disk. Of several such parts only the newest stays.
func TestPartsWithoutAKnownCommitStay(t *testing.T) {
	s, err := OpenFS(memfs.New())
	must(t, err)
	hold := func(g schema.Generation, sequence uint64) manifest.Hash {
		t.Helper()
		must(t, s.Raise(g))
		at := manifest.Position{Generation: g, Sequence: sequence, Of: "a"}
		m, own := putPart(t, s, at, fmt.Sprint(g, sequence))
		raw, whole := wholeOf(m, &manifest.Manifest{}, own).Encode()
		must(t, s.HoldParts(t.Context(), Partial{Generation: g, Manifest: raw, Parts: []manifest.Hash{own}}))
		return whole
	}
	older, left := hold(1, 1), hold(1, 2)
	now := time.Now()
	must(t, s.Retain(2, nil, nil, now))
	if s.HasManifest(older) || !s.HasManifest(left) {
		t.Errorf("generation 2: the older one %v, the newest %v", s.HasManifest(older), s.HasManifest(left))
	}
	next := hold(2, 1)
	must(t, s.Retain(2, nil, nil, now))
	if !s.HasManifest(left) || !s.HasManifest(next) {
		t.Errorf("before a commit: %v, %v", s.HasManifest(left), s.HasManifest(next))
	}
	must(t, s.Retain(2, []manifest.Head{{Number: 1, Generation: 2, Manifest: next, Copies: 1}}, nil, now))
	if s.HasManifest(left) || !s.HasManifest(next) {
		t.Errorf("after a commit: %v, %v", s.HasManifest(left), s.HasManifest(next))
	}
}

// A chunk is written by two transfers at once, the second time while the first one is synced: what is
// held then survives a crash.
func TestAChunkThatComesTwice(t *testing.T) {
	disk := memfs.New()
	s, err := OpenFS(disk)
	must(t, err)
	data := []byte("the same bytes")
	h := manifest.Sum(data)
	must(t, s.writeChunk(h, data))
	flushed := map[manifest.Hash]bool{}
	for c := range s.unsynced {
		flushed[c] = true
	}
	files := s.unsynced
	s.unsynced = map[manifest.Hash]dirfs.File{} // as flush does, before it syncs them
	must(t, s.writeChunk(h, data))
	for _, f := range files {
		must(t, errors.Join(f.Sync(), f.Close()))
	}
	must(t, disk.SyncDir("chunks"))
	after, err := OpenFS(disk.Crash(func() bool { return true }))
	must(t, err)
	if ok, err := after.VerifyChunk(h); !ok || err != nil || !flushed[h] {
		t.Errorf("after the crash: whole %v, %v", ok, err)
	}
}
