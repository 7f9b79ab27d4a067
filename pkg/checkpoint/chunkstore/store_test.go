package chunkstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/schema"
)

func TestPutAndRestore(t *testing.T) {
	memfs.OnEach(t, func(t *testing.T, make func() dirfs.FS) {
		from, to, disk := make(), make(), make()
		memfs.Model(t, from)
		s := storeOn(t, disk)
		m, h := put(t, s, from, 1, 1)
		if m.Bytes() != 4*manifest.ChunkSize+1000+10+10+14 {
			t.Errorf("bytes: %d", m.Bytes())
		}
		must(t, s.Verify(t.Context(), h))

		memfs.WriteFile(t, to, "step-1/model.pt", []byte("half a save"), 0o644)
		memfs.WriteFile(t, to, "step-1/gone", []byte("of another save"), 0o644)
		memfs.WriteFile(t, to, "step-1.json", []byte("torn"), 0o600)
		memfs.WriteFile(t, to, "notes.txt", []byte("the user's own"), 0o600)
		want := memfs.Contents(t, from)
		want["notes.txt"] = "-rw------- the user's own"
		for _, again := range []string{"restore", "restore again"} {
			if err := restoreTo(t, s, h, to); err != nil {
				t.Fatal(again, err)
			}
			if d := cmp.Diff(want, memfs.Contents(t, to)); d != "" {
				t.Fatal(again, d[:min(len(d), 500)])
			}
		}

		// A second process finds the same.
		s = storeOn(t, disk)
		if got := s.Held(); !slices.Equal(got, []manifest.Hash{h}) {
			t.Fatalf("held after opening again: %v", got)
		}
		must(t, s.Verify(t.Context(), h))
	})
}

// What is right already is not written again: workers that start again in a
// second must not wait for the disk.
func TestRestoreTouchesNothingThatIsRight(t *testing.T) {
	from := memfs.New()
	memfs.Model(t, from)
	s := storeOn(t, memfs.New())
	_, h := put(t, s, from, 1, 1)
	from.Machine.Hook = func(op, name string) error {
		if op == "create" || op == "rename" || op == "remove" {
			t.Errorf("%s %s", op, name)
		}
		return nil
	}
	if err := restoreTo(t, s, h, from); err != nil {
		t.Fatal(err)
	}
}

func TestChunksAreStoredOnce(t *testing.T) {
	from, disk := memfs.New(), memfs.New()
	memfs.Model(t, from)
	s := storeOn(t, disk)
	put(t, s, from, 1, 1)
	created := 0
	disk.Machine.Hook = func(op, name string) error {
		if op == "create" {
			created++
		}
		return nil
	}
	memfs.WriteFile(t, from, "step-1.json", []byte(`{"step":2}`), 0o600)
	put(t, s, from, 1, 2)
	if created != 2 { // its one chunk, and the manifest
		t.Errorf("%d files written for a save that changed one", created)
	}
}

// A file that is as it was at the last Put is not even read.
func TestUnchangedFilesAreNotRead(t *testing.T) {
	from := memfs.New()
	memfs.WriteFile(t, from, "big.bin", memfs.Bytes(1, 3*manifest.ChunkSize), 0o600)
	past(from, "big.bin", time.Minute)
	s := storeOn(t, memfs.New())
	put(t, s, from, 1, 1)
	from.Machine.Hook = func(op, name string) error {
		if op == "read" && name == "big.bin" {
			return errors.New("was read")
		}
		return nil
	}
	memfs.WriteFile(t, from, "small.bin", []byte("new"), 0o600)
	_, h := put(t, s, from, 1, 2)
	must(t, s.Verify(t.Context(), h))
}

// past makes a file as old as age.
func past(t *memfs.FS, name string, age time.Duration) {
	_, _, n, _ := t.Find("past", name)
	n.Mtime = n.Mtime.Add(-age)
	n.Ctime = n.Mtime
}

func TestTornIsNeverTaken(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(from *memfs.FS)
	}{
		{"written to", func(from *memfs.FS) {
			_, _, n, _ := from.Find("", "model.pt")
			n.Data[1], n.Mtime = n.Data[1]+1, n.Mtime.Add(time.Millisecond)
		}},
		{"cut short", func(from *memfs.FS) {
			_, _, n, _ := from.Find("", "model.pt")
			n.Data = n.Data[:100]
		}},
		{"grown", func(from *memfs.FS) {
			_, _, n, _ := from.Find("", "model.pt")
			n.Data = append(n.Data, 1)
		}},
		{"its partner replaced", func(from *memfs.FS) {
			_, _, n, _ := from.Find("", "optimizer.pt")
			copied := *n
			copied.Ino = 999
			from.Root.Names["optimizer.pt"] = &copied
		}},
		{"its partner gone", func(from *memfs.FS) { delete(from.Root.Names, "optimizer.pt") }},
		{"read, and then replaced, before its partner is read", func(from *memfs.FS) {
			from.Root.Names["model.pt"] = &memfs.Node{Ino: 999, Data: make([]byte, 10)}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			from, disk := memfs.New(), memfs.New()
			memfs.WriteFile(t, from, "model.pt", memfs.Bytes(1, 2*manifest.ChunkSize), 0o600)
			if strings.Contains(c.name, "partner") {
				memfs.WriteFile(t, from, "optimizer.pt", memfs.Bytes(2, 2*manifest.ChunkSize), 0o600)
			}
			save := saveOf(t, from, 1, 1)
			reads := 0
			from.Machine.Hook = func(op, name string) error {
				if op == "read" && name == "model.pt" && !strings.HasPrefix(c.name, "read,") ||
					op == "read" && name == "optimizer.pt" {
					if reads++; reads == 2 {
						c.change(from)
					}
				}
				return nil
			}
			s := storeOn(t, disk)
			if _, _, err := s.Put(t.Context(), save); !errors.Is(err, ErrTorn) {
				t.Errorf("put: %v, want %v", err, ErrTorn)
			}
			if got := s.Held(); len(got) > 0 {
				t.Errorf("held: %v", got)
			}
			// A save that is written over again and again does not fill the disk.
			if left := len(s.chunks); left > 0 {
				t.Errorf("%d chunks are left of it", left)
			}
		})
	}
}

// Put fails for a file that was written after the picture was taken.
func TestChangedBeforePut(t *testing.T) {
	from := memfs.New()
	memfs.WriteFile(t, from, "model.pt", memfs.Bytes(1, 1000), 0o600)
	save := saveOf(t, from, 1, 1)
	_, _, n, _ := from.Find("", "model.pt")
	n.Data, n.Mtime = memfs.Bytes(2, 1000), n.Mtime.Add(time.Millisecond)
	if _, _, err := storeOn(t, memfs.New()).Put(t.Context(), save); !errors.Is(err, ErrTorn) {
		t.Errorf("put: %v", err)
	}
}

// A single file whose name was given to the next save while it was read is whole all the same.
func TestReplacedWhileRead(t *testing.T) {
	from := memfs.New()
	memfs.WriteFile(t, from, "model.pt", memfs.Bytes(1, 2*manifest.ChunkSize), 0o600)
	save := saveOf(t, from, 1, 1)
	reads := 0
	from.Machine.Hook = func(op, name string) error {
		if op == "read" {
			if reads++; reads == 2 {
				from.Root.Names["model.pt"] = &memfs.Node{Ino: 99, Data: []byte("next")}
			}
		}
		return nil
	}
	s := storeOn(t, memfs.New())
	m, _, err := s.Put(t.Context(), save)
	must(t, err)
	if m.Files[0].Chunks[1] != sha256.Sum256(memfs.Bytes(1, 2*manifest.ChunkSize)[manifest.ChunkSize:]) {
		t.Error("not the bytes of the save")
	}
}

func TestNoSpaceBeforeTheFirstByte(t *testing.T) {
	from, disk := memfs.New(), memfs.New()
	memfs.Model(t, from)
	s := storeOn(t, disk)
	disk.Machine.Free = 3 * manifest.ChunkSize
	disk.Machine.Hook = func(op, name string) error {
		if op == "create" && strings.HasPrefix(name, readonly.Temp+"/") {
			t.Errorf("%s %s", op, name)
		}
		return nil
	}
	s.generation = 1
	if _, _, err := s.Put(t.Context(), saveOf(t, from, 1, 1)); !errors.Is(err, dirfs.ErrNoSpace) {
		t.Errorf("put: %v", err)
	}
	if s.reserved != 0 {
		t.Errorf("%d bytes stay reserved", s.reserved)
	}
}

// Two transfers may not both count on the same free bytes.
func TestSpaceIsReserved(t *testing.T) {
	disk := memfs.New()
	s := storeOn(t, disk)
	disk.Machine.Free = dirfs.SparedSpace + 100<<20
	r, err := s.room(60 << 20)
	must(t, err)
	if _, err := s.room(60 << 20); !errors.Is(err, dirfs.ErrNoSpace) {
		t.Errorf("second reservation: %v", err)
	}
	r.release()
	if _, err := s.room(60 << 20); err != nil {
		t.Error(err)
	}
}

func TestSyncFailureIsFinal(t *testing.T) {
	from, disk := memfs.New(), memfs.New()
	memfs.Model(t, from)
	s := storeOn(t, disk)
	broken := true
	disk.Machine.Hook = func(op, name string) error {
		if op == "sync" && broken && strings.HasPrefix(name, readonly.Temp) {
			broken = false
			return errors.New("input/output error")
		}
		return nil
	}
	if _, _, err := s.Put(t.Context(), saveOf(t, from, 1, 1)); err == nil {
		t.Fatal("a failed sync was forgiven")
	}
	_, h := put(t, s, from, 1, 2) // once: written anew
	must(t, s.Verify(t.Context(), h))
	broken = true
	memfs.WriteFile(t, from, "step-1.json", []byte("more"), 0o600)
	if _, _, err := s.Put(t.Context(), saveOf(t, from, 1, 3)); err == nil {
		t.Fatal("a failed sync was forgiven")
	}
	if _, _, err := s.Put(t.Context(), saveOf(t, from, 1, 4)); !errors.Is(err, dirfs.ErrQuarantined) {
		t.Errorf("after two: %v", err)
	}
	must(t, s.Verify(t.Context(), h)) // reading goes on
}

func TestOlderGenerationsAreRefused(t *testing.T) {
	memfs.OnEach(t, func(t *testing.T, make func() dirfs.FS) {
		from, disk := make(), make()
		memfs.Model(t, from)
		s := storeOn(t, disk)
		m, h := put(t, s, from, 3, 1)
		if s.Generation() != 3 {
			t.Errorf("seen after a save of 3: %d", s.Generation())
		}
		must(t, s.Raise(5))
		s = storeOn(t, disk)
		if s.Generation() != 5 {
			t.Fatalf("seen: %d", s.Generation())
		}
		raw, _ := m.Encode()
		_, _, putErr := s.Put(t.Context(), saveOf(t, from, 4, 1))
		_, offerErr := s.Offer(t.Context(), 4, raw)
		for what, err := range map[string]error{
			"put": putErr, "offer": offerErr, "see": s.Raise(4),
			"chunk": s.WriteChunk(4, h, strings.NewReader("x")), "delete": s.Retain(4, nil, nil, time.Now()),
		} {
			if !errors.Is(err, ErrFenced) {
				t.Errorf("%s: %v", what, err)
			}
		}
		// The generation that made the bytes is not the one that moves them.
		if missing, err := s.Offer(t.Context(), 5, raw); missing != nil || err != nil {
			t.Errorf("offer by a newer one: %v, %v", missing, err)
		}
	})
}

// A generation that was proposed while a Put was under way wins.
func TestFencedWhilePutting(t *testing.T) {
	from, disk := memfs.New(), memfs.New()
	memfs.Model(t, from)
	s := storeOn(t, disk)
	from.Machine.Hook = func(op, name string) error {
		if op == "open" && name == "step-1/model.pt" {
			must(t, s.Raise(2))
		}
		return nil
	}
	if _, _, err := s.Put(t.Context(), saveOf(t, from, 1, 1)); !errors.Is(err, ErrFenced) ||
		len(s.Held()) > 0 {
		t.Errorf("put: %v, held %v", err, s.Held())
	}
}

func TestDamageIsFoundAndNeverRestored(t *testing.T) {
	memfs.OnEach(t, func(t *testing.T, make func() dirfs.FS) {
		from, disk := make(), make()
		memfs.Model(t, from)
		s := storeOn(t, disk)
		m, h := put(t, s, from, 1, 1)
		bad := m.Files[len(m.Files)-1].Chunks[0]
		flip(t, disk, bad)
		to := make()
		if err := restoreTo(t, s, h, to); !errors.Is(err, ErrDamaged) {
			t.Errorf("restore: %v", err)
		}
		for name := range memfs.Contents(t, to) {
			if strings.HasPrefix(name, manifest.ReservedPrefix) {
				t.Errorf("left behind: %s", name)
			}
		}
		if err := s.Verify(t.Context(), h); !errors.Is(err, ErrDamaged) ||
			!strings.Contains(err.Error(), bad.String()) {
			t.Errorf("verify: %v", err)
		}
		if _, err := s.OpenChunk(bad); !errors.Is(err, ErrNotHeld) {
			t.Errorf("a damaged chunk is served: %v", err)
		}
		// The next Put of the same bytes writes it anew.
		_, h = put(t, s, from, 1, 2)
		must(t, s.Verify(t.Context(), h))

		// So it is after a restart, when nothing is believed yet.
		flip(t, disk, bad)
		s = storeOn(t, disk)
		_, h = put(t, s, from, 1, 3)
		must(t, s.Verify(t.Context(), h))
	})
}

func TestRetain(t *testing.T) {
	memfs.OnEach(t, func(t *testing.T, make func() dirfs.FS) {
		from, disk := make(), make()
		s := storeOn(t, disk)
		var hashes []manifest.Hash
		for i := range uint64(4) {
			memfs.WriteFile(t, from, "model.pt",
				slices.Concat(memfs.Bytes(99, manifest.ChunkSize), memfs.Bytes(i, 500)), 0o600)
			_, h := put(t, s, from, 1, i+1)
			hashes = append(hashes, h)
		}
		// 1 was retained away, 2 and 3 are committed, 4 is on its way.
		committed := []manifest.Head{{Number: 2, Manifest: hashes[1]}, {Number: 3, Manifest: hashes[2]}}
		must(t, s.Retain(1, committed, nil, time.Now()))
		for i, want := range []bool{false, true, true, true} {
			if got := s.Has(hashes[i]); got != want {
				t.Errorf("save %d: held %v", i+1, got)
			}
		}
		for _, h := range s.Held() {
			must(t, s.Verify(t.Context(), h))
		}
		if got := s.Numbers(); !slices.Equal(got, []manifest.Number{2, 3}) {
			t.Errorf("numbers: %v", got)
		}
		// A newer generation: what was not committed never will be, unless it is pinned.
		must(t, s.Raise(2))
		must(t, s.Retain(2, committed[1:], []manifest.Hash{hashes[1]}, time.Now()))
		s = storeOn(t, disk)
		want := []manifest.Hash{hashes[1], hashes[2]}
		slices.SortFunc(want, func(a, b manifest.Hash) int { return slices.Compare(a[:], b[:]) })
		if got := s.Held(); !slices.Equal(got, want) {
			t.Errorf("held: %v, want %v", got, want)
		}
		if n := len(slices.Collect(maps.Keys(s.chunks))); n != 3 { // the shared one, and one each
			t.Errorf("%d chunks on disk", n)
		}
		if h, ok := s.Newest(); !ok || h.Number != 3 {
			t.Errorf("newest: %v %v", h, ok)
		}
	})
}

// A chunk that a transfer counts on is not swept away under it.
func TestSweepSparesWhatIsUnderWay(t *testing.T) {
	from := memfs.New()
	memfs.Model(t, from)
	there := storeOn(t, memfs.New())
	m, _ := put(t, there, from, 1, 1)
	raw, _ := m.Encode()
	s := storeOn(t, memfs.New())
	for {
		missing, err := s.Offer(t.Context(), 1, raw)
		must(t, err)
		if missing == nil {
			break
		}
		c, err := there.OpenChunk(missing[0])
		must(t, err)
		must(t, s.WriteChunk(1, missing[0], c))
		must(t, c.Close())
		must(t, s.Retain(1, nil, nil, time.Now()))
		if rest, err := s.Offer(t.Context(), 1, raw); err != nil || len(rest) != len(missing)-1 {
			t.Fatalf("%d chunks are missing, %d were: %v", len(rest), len(missing), err)
		}
	}
	// A sender that went away is forgotten, and so is what it brought.
	s = storeOn(t, memfs.New())
	missing, err := s.Offer(t.Context(), 1, raw)
	must(t, err)
	c, err := there.OpenChunk(missing[0])
	must(t, err)
	must(t, s.WriteChunk(1, missing[0], c))
	must(t, s.Retain(1, nil, nil, time.Now().Add(2*offerIdle)))
	if len(s.chunks) != 0 || s.reserved != 0 {
		t.Errorf("%d chunks, %d bytes reserved", len(s.chunks), s.reserved)
	}
}

func TestReceive(t *testing.T) {
	memfs.OnEach(t, func(t *testing.T, make func() dirfs.FS) {
		from := make()
		memfs.Model(t, from)
		there := storeOn(t, make())
		m, h := put(t, there, from, 1, 1)
		raw, _ := m.Encode()
		disk := make()
		s := storeOn(t, disk)
		some := m.Files[len(m.Files)-1].Chunks[0]
		if err := s.WriteChunk(1, some, strings.NewReader("x")); !errors.Is(err, ErrNotOffered) {
			t.Errorf("chunk of nothing: %v", err)
		}
		missing, err := s.Offer(t.Context(), 1, raw)
		must(t, err)
		for _, bad := range []string{"", "other bytes", string(memfs.Bytes(1, manifest.ChunkSize+1))} {
			if err := s.WriteChunk(1, some, strings.NewReader(bad)); !errors.Is(err, ErrDamaged) {
				t.Errorf("%d wrong bytes: %v", len(bad), err)
			}
		}
		if again, _ := s.Offer(t.Context(), 1, raw); len(again) != len(missing) {
			t.Errorf("%d missing, %d were", len(again), len(missing))
		}
		for i, c := range missing {
			if i == len(missing)/2 {
				// Restarted: the chunks are there, the offer is not.
				s = storeOn(t, disk)
				rest, err := s.Offer(t.Context(), 1, raw)
				if err != nil || len(rest) != len(missing)-i {
					t.Fatalf("%d of %d missing after a restart: %v", len(rest), len(missing)-i, err)
				}
			}
			r, err := there.OpenChunk(c)
			must(t, err)
			must(t, s.WriteChunk(1, c, r))
			must(t, r.Close())
		}
		if s.Has(h) {
			t.Error("held before it was acknowledged")
		}
		if missing, err := s.Offer(t.Context(), 1, raw); missing != nil || err != nil {
			t.Fatal(missing, err)
		}
		s = storeOn(t, disk)
		if !s.Has(h) {
			t.Fatal("acknowledged and not held")
		}
		must(t, s.Verify(t.Context(), h))
	})
}

func TestPutCancelled(t *testing.T) {
	from := memfs.New()
	memfs.Model(t, from)
	s := storeOn(t, memfs.New())
	ctx, cancel := context.WithCancel(t.Context())
	from.Machine.Hook = func(op, name string) error {
		if op == "read" {
			cancel()
		}
		return nil
	}
	if _, _, err := s.Put(ctx, saveOf(t, from, 1, 1)); !errors.Is(err, context.Canceled) ||
		len(s.Held()) > 0 {
		t.Errorf("put: %v", err)
	}
}

// A manifest from another machine is decoded before anything is written.
func TestOfferOfABadManifest(t *testing.T) {
	disk := memfs.New()
	s := storeOn(t, disk)
	disk.Machine.Hook = func(op, name string) error {
		t.Errorf("%s %s", op, name)
		return nil
	}
	for _, raw := range []string{"", "junk", "{}",
		`{"format":1,"job":"x","files":[{"path":"../evil","mode":384,"chunks":""}]}`} {
		if _, err := s.Offer(t.Context(), 1, []byte(raw)); !errors.Is(err, manifest.ErrBadManifest) {
			t.Errorf("offer of %q: %v", raw, err)
		}
	}
}

// A peer that sends a generation that was never proposed does not keep this node from saving.
func TestAPeersGenerationIsNotKept(t *testing.T) {
	from := memfs.New()
	memfs.Model(t, from)
	s, others := storeOn(t, memfs.New()), memfs.New()
	_, h := put(t, storeOn(t, others), from, 1, 1)
	raw, err := readonly.New(others).Manifest(t.Context(), h)
	must(t, err)
	put(t, s, from, 1, 1)
	_, _ = s.Offer(t.Context(), schema.MaxGeneration, raw) // whether it is taken or not
	if g := s.Generation(); g != 1 {
		t.Errorf("the generation is %d", g)
	}
	put(t, s, from, 1, 2)
}

// A job that goes back to an older checkpoint notes its commit again: the inventory has each number once.
func TestACommitIsNotedOnce(t *testing.T) {
	from, s := memfs.New(), storeOn(t, memfs.New())
	memfs.Model(t, from)
	var heads []manifest.Head
	for n := range 3 {
		memfs.WriteFile(t, from, "step-1.json", []byte{byte(n)}, 0o600)
		_, h := put(t, s, from, 1, uint64(n+1))
		heads = append(heads, manifest.Head{Number: manifest.Number(n + 1), Manifest: h})
	}
	for _, h := range append(heads, heads[0]) {
		must(t, s.AddCommitted(h))
	}
	if got := s.Numbers(); !slices.Equal(got, []manifest.Number{1, 2, 3}) {
		t.Errorf("the disk has %v", got)
	}
}

// A store whose directory was replaced acknowledges nothing, not even what it has, and has no inventory: the
// next agent finds none of it.
func TestAnAbandonedStoreAcknowledgesNothing(t *testing.T) {
	from, s := memfs.New(), storeOn(t, memfs.New())
	memfs.Model(t, from)
	m, h := put(t, s, from, 1, 1)
	must(t, s.AddCommitted(manifest.Head{Number: 1, Manifest: h}))
	raw, _ := m.Encode()
	if missing, err := s.Offer(t.Context(), 1, raw); err != nil || missing != nil {
		t.Fatalf("before: %v, %v", missing, err)
	}
	s.Abandon()
	if _, err := s.Offer(t.Context(), 1, raw); !errors.Is(err, dirfs.ErrQuarantined) {
		t.Errorf("an offer of what it has: %v", err)
	}
	if got := s.Numbers(); len(got) > 0 {
		t.Errorf("its inventory is %v", got)
	}
	must(t, s.Verify(t.Context(), h)) // reading goes on
}
