package checkpoint

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/pkg/schema"
)

// onEach runs f with trees of the real file system, and of the one in memory.
func onEach(t *testing.T, f func(t *testing.T, make func() tree)) {
	t.Run("disk", func(t *testing.T) {
		f(t, func() tree {
			d, err := openTree(t.TempDir())
			must(t, err)
			t.Cleanup(func() { d.Close() })
			return d
		})
	})
	t.Run("memory", func(t *testing.T) { f(t, func() tree { return newMem() }) })
}

func storeOn(t testing.TB, tree tree) *Store {
	t.Helper()
	s, err := openStore(tree)
	must(t, err)
	return s
}

// bytesOf is n bytes that are the same for the same seed, and like no others.
func bytesOf(seed uint64, n int) []byte {
	b := make([]byte, n)
	var s [32]byte
	binary.LittleEndian.PutUint64(s[:], seed)
	rand.NewChaCha8(s).Read(b)
	return b
}

func fileIn(t testing.TB, tree tree, name string, data []byte, mode fs.FileMode) {
	t.Helper()
	d := disk{tree: tree}
	if i := strings.LastIndex(name, "/"); i > 0 {
		must(t, tree.Mkdir(name[:i], 0o755))
	}
	must(t, d.discard(name))
	must(t, d.write(name, bytes.NewReader(data), mode))
}

// saveOf is a picture of everything in a tree.
func saveOf(t testing.TB, from tree, g schema.Generation, seq uint64) Save {
	t.Helper()
	s := Save{Stamp: Stamp{"x", "u1", g, 2}, Sequence: seq, Time: time.Now(), dir: from}
	list, err := from.ReadDir(".")
	must(t, err)
	for _, e := range list {
		files, err := walk(from, e.Name(), nil)
		must(t, err)
		s.files = append(s.files, files...)
	}
	slices.SortFunc(s.files, func(a, b source) int { return strings.Compare(a.path, b.path) })
	return s
}

// contents is every file of a tree, with its mode.
func contents(t testing.TB, from tree) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, f := range saveOf(t, from, 0, 0).files {
		raw, err := (&disk{tree: from}).readFile(f.path, 1<<30)
		must(t, err)
		all[f.path] = f.mode.String() + " " + string(raw)
	}
	return all
}

// model is a checkpoint with all that is awkward: several chunks, the same
// chunk twice, nothing at all, names around "/".
func model(t testing.TB, to tree) {
	t.Helper()
	a, zero := bytesOf(1, ChunkSize), make([]byte, ChunkSize)
	fileIn(t, to, "step-1/model.pt", slices.Concat(a, zero, bytesOf(2, 1000), zero[:10]), 0o644)
	fileIn(t, to, "step-1/deep/er/optimizer.pt", slices.Concat(zero, a), 0o600)
	fileIn(t, to, "step-1/empty", nil, 0o640)
	fileIn(t, to, "step-1.json", []byte(`{"step":1}`), 0o777)
	fileIn(t, to, "step-", []byte("before a slash"), 0o400)
}

func put(t testing.TB, s *Store, from tree, g schema.Generation, seq uint64) (*Manifest, Hash) {
	t.Helper()
	m, h, err := s.Put(t.Context(), saveOf(t, from, g, seq))
	must(t, err)
	return m, h
}

func TestPutAndRestore(t *testing.T) {
	onEach(t, func(t *testing.T, make func() tree) {
		from, to, disk := make(), make(), make()
		model(t, from)
		s := storeOn(t, disk)
		m, h := put(t, s, from, 1, 1)
		if m.Bytes() != 4*ChunkSize+1000+10+10+14 {
			t.Errorf("bytes: %d", m.Bytes())
		}
		must(t, s.Verify(t.Context(), h))

		fileIn(t, to, "step-1/model.pt", []byte("half a save"), 0o644)
		fileIn(t, to, "step-1/gone", []byte("of another save"), 0o644)
		fileIn(t, to, "step-1.json", []byte("torn"), 0o600)
		fileIn(t, to, "notes.txt", []byte("the user's own"), 0o600)
		want := contents(t, from)
		want["notes.txt"] = "-rw------- the user's own"
		for _, again := range []string{"restore", "restore again"} {
			if _, err := s.restore(t.Context(), h, to); err != nil {
				t.Fatal(again, err)
			}
			if d := cmp.Diff(want, contents(t, to)); d != "" {
				t.Fatal(again, d[:min(len(d), 500)])
			}
		}

		// A second process finds the same.
		s = storeOn(t, disk)
		if got := s.Held(); !slices.Equal(got, []Hash{h}) {
			t.Fatalf("held after opening again: %v", got)
		}
		must(t, s.Verify(t.Context(), h))
	})
}

// What is right already is not written again: workers that start again in a
// second must not wait for the disk.
func TestRestoreTouchesNothingThatIsRight(t *testing.T) {
	from := newMem()
	model(t, from)
	s := storeOn(t, newMem())
	_, h := put(t, s, from, 1, 1)
	from.hook = func(op, name string) error {
		if op == "create" || op == "rename" || op == "remove" {
			t.Errorf("%s %s", op, name)
		}
		return nil
	}
	if _, err := s.restore(t.Context(), h, from); err != nil {
		t.Fatal(err)
	}
}

func TestChunksAreStoredOnce(t *testing.T) {
	from, disk := newMem(), newMem()
	model(t, from)
	s := storeOn(t, disk)
	put(t, s, from, 1, 1)
	created := 0
	disk.hook = func(op, name string) error {
		if op == "create" {
			created++
		}
		return nil
	}
	fileIn(t, from, "step-1.json", []byte(`{"step":2}`), 0o600)
	put(t, s, from, 1, 2)
	if created != 2 { // its one chunk, and the manifest
		t.Errorf("%d files written for a save that changed one", created)
	}
}

// A file that is as it was at the last Put is not even read.
func TestUnchangedFilesAreNotRead(t *testing.T) {
	from := newMem()
	fileIn(t, from, "big.bin", bytesOf(1, 3*ChunkSize), 0o600)
	past(from, "big.bin", time.Minute)
	s := storeOn(t, newMem())
	put(t, s, from, 1, 1)
	from.hook = func(op, name string) error {
		if op == "read" && name == "big.bin" {
			return errors.New("was read")
		}
		return nil
	}
	fileIn(t, from, "small.bin", []byte("new"), 0o600)
	_, h := put(t, s, from, 1, 2)
	must(t, s.Verify(t.Context(), h))
}

// past makes a file as old as age.
func past(t *memTree, name string, age time.Duration) {
	_, _, n, _ := t.find("past", name)
	n.mtime = n.mtime.Add(-age)
	n.ctime = n.mtime
}

func TestTornIsNeverTaken(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(from *memTree)
	}{
		{"written to", func(from *memTree) {
			_, _, n, _ := from.find("", "model.pt")
			n.data[1], n.mtime = n.data[1]+1, n.mtime.Add(time.Millisecond)
		}},
		{"cut short", func(from *memTree) { _, _, n, _ := from.find("", "model.pt"); n.data = n.data[:100] }},
		{"grown", func(from *memTree) { _, _, n, _ := from.find("", "model.pt"); n.data = append(n.data, 1) }},
		{"its partner replaced", func(from *memTree) {
			_, _, n, _ := from.find("", "optimizer.pt")
			copied := *n
			copied.ino = 999
			from.root.names["optimizer.pt"] = &copied
		}},
		{"its partner gone", func(from *memTree) { delete(from.root.names, "optimizer.pt") }},
		{"read, and then replaced, before its partner is read", func(from *memTree) {
			from.root.names["model.pt"] = &memNode{ino: 999, data: make([]byte, 10)}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			from, disk := newMem(), newMem()
			fileIn(t, from, "model.pt", bytesOf(1, 2*ChunkSize), 0o600)
			if strings.Contains(c.name, "partner") {
				fileIn(t, from, "optimizer.pt", bytesOf(2, 2*ChunkSize), 0o600)
			}
			save := saveOf(t, from, 1, 1)
			reads := 0
			from.hook = func(op, name string) error {
				if op == "read" && name == "model.pt" && !strings.HasPrefix(c.name, "read,") || op == "read" && name == "optimizer.pt" {
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
		})
	}
}

// What was written between the picture and the Put is not what was found whole.
func TestChangedBeforePut(t *testing.T) {
	from := newMem()
	fileIn(t, from, "model.pt", bytesOf(1, 1000), 0o600)
	save := saveOf(t, from, 1, 1)
	_, _, n, _ := from.find("", "model.pt")
	n.data, n.mtime = bytesOf(2, 1000), n.mtime.Add(time.Millisecond)
	if _, _, err := storeOn(t, newMem()).Put(t.Context(), save); !errors.Is(err, ErrTorn) {
		t.Errorf("put: %v", err)
	}
}

// A single file whose name was given to the next save while it was read is whole all the same.
func TestReplacedWhileRead(t *testing.T) {
	from := newMem()
	fileIn(t, from, "model.pt", bytesOf(1, 2*ChunkSize), 0o600)
	save := saveOf(t, from, 1, 1)
	reads := 0
	from.hook = func(op, name string) error {
		if op == "read" {
			if reads++; reads == 2 {
				from.root.names["model.pt"] = &memNode{ino: 99, data: []byte("next")}
			}
		}
		return nil
	}
	s := storeOn(t, newMem())
	m, _, err := s.Put(t.Context(), save)
	must(t, err)
	if m.Files[0].Chunks[1] != sha256.Sum256(bytesOf(1, 2*ChunkSize)[ChunkSize:]) {
		t.Error("not the bytes of the save")
	}
}

func TestNoSpaceBeforeTheFirstByte(t *testing.T) {
	from, disk := newMem(), newMem()
	model(t, from)
	s := storeOn(t, disk)
	disk.space = 3 * ChunkSize
	disk.hook = func(op, name string) error {
		if op == "create" && strings.HasPrefix(name, tempDir+"/") {
			t.Errorf("%s %s", op, name)
		}
		return nil
	}
	s.seen = 1
	if _, _, err := s.Put(t.Context(), saveOf(t, from, 1, 1)); !errors.Is(err, ErrNoSpace) {
		t.Errorf("put: %v", err)
	}
	if s.reserved != 0 {
		t.Errorf("%d bytes stay reserved", s.reserved)
	}
}

// Two transfers may not both count on the same free bytes.
func TestSpaceIsReserved(t *testing.T) {
	disk := newMem()
	s := storeOn(t, disk)
	disk.space = spared + 100<<20
	r, err := s.room(60 << 20)
	must(t, err)
	if _, err := s.room(60 << 20); !errors.Is(err, ErrNoSpace) {
		t.Errorf("second reservation: %v", err)
	}
	r.release()
	if _, err := s.room(60 << 20); err != nil {
		t.Error(err)
	}
}

func TestSyncFailureIsFinal(t *testing.T) {
	from, disk := newMem(), newMem()
	model(t, from)
	s := storeOn(t, disk)
	broken := true
	disk.hook = func(op, name string) error {
		if op == "sync" && broken && strings.HasPrefix(name, tempDir) {
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
	fileIn(t, from, "step-1.json", []byte("more"), 0o600)
	if _, _, err := s.Put(t.Context(), saveOf(t, from, 1, 3)); err == nil {
		t.Fatal("a failed sync was forgiven")
	}
	if _, _, err := s.Put(t.Context(), saveOf(t, from, 1, 4)); !errors.Is(err, ErrQuarantined) {
		t.Errorf("after two: %v", err)
	}
	must(t, s.Verify(t.Context(), h)) // reading goes on
}

func TestOlderGenerationsAreRefused(t *testing.T) {
	onEach(t, func(t *testing.T, make func() tree) {
		from, disk := make(), make()
		model(t, from)
		s := storeOn(t, disk)
		m, h := put(t, s, from, 3, 1)
		if s.Seen() != 3 {
			t.Errorf("seen after a save of 3: %d", s.Seen())
		}
		must(t, s.See(5))
		s = storeOn(t, disk)
		if s.Seen() != 5 {
			t.Fatalf("seen: %d", s.Seen())
		}
		raw, _ := m.Encode()
		_, _, putErr := s.Put(t.Context(), saveOf(t, from, 4, 1))
		_, offerErr := s.Offer(t.Context(), 4, raw)
		for what, err := range map[string]error{
			"put": putErr, "offer": offerErr, "see": s.See(4),
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
	from, disk := newMem(), newMem()
	model(t, from)
	s := storeOn(t, disk)
	from.hook = func(op, name string) error {
		if op == "open" && name == "step-1/model.pt" {
			must(t, s.See(2))
		}
		return nil
	}
	if _, _, err := s.Put(t.Context(), saveOf(t, from, 1, 1)); !errors.Is(err, ErrFenced) || len(s.Held()) > 0 {
		t.Errorf("put: %v, held %v", err, s.Held())
	}
}

func flip(t testing.TB, s *Store, h Hash) {
	t.Helper()
	raw, err := s.disk.readFile(chunkPath(h), ChunkSize)
	must(t, err)
	raw[len(raw)/2] ^= 1
	must(t, s.disk.Remove(chunkPath(h)))
	must(t, s.disk.write(chunkPath(h), bytes.NewReader(raw), 0o600))
}

func TestDamageIsFoundAndNeverRestored(t *testing.T) {
	onEach(t, func(t *testing.T, make func() tree) {
		from, disk := make(), make()
		model(t, from)
		s := storeOn(t, disk)
		m, h := put(t, s, from, 1, 1)
		bad := m.Files[len(m.Files)-1].Chunks[0]
		flip(t, s, bad)
		to := make()
		if _, err := s.restore(t.Context(), h, to); !errors.Is(err, ErrDamaged) {
			t.Errorf("restore: %v", err)
		}
		for name := range contents(t, to) {
			if strings.HasPrefix(name, own) {
				t.Errorf("left behind: %s", name)
			}
		}
		if err := s.Verify(t.Context(), h); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), bad.String()) {
			t.Errorf("verify: %v", err)
		}
		if _, err := s.OpenChunk(bad); !errors.Is(err, ErrNotHeld) {
			t.Errorf("a damaged chunk is served: %v", err)
		}
		// The next Put of the same bytes writes it anew.
		_, h = put(t, s, from, 1, 2)
		must(t, s.Verify(t.Context(), h))

		// So it is after a restart, when nothing is believed yet.
		flip(t, s, bad)
		s = storeOn(t, disk)
		_, h = put(t, s, from, 1, 3)
		must(t, s.Verify(t.Context(), h))
	})
}

func TestRetain(t *testing.T) {
	onEach(t, func(t *testing.T, make func() tree) {
		from, disk := make(), make()
		s := storeOn(t, disk)
		var hashes []Hash
		for i := range uint64(4) {
			fileIn(t, from, "model.pt", slices.Concat(bytesOf(99, ChunkSize), bytesOf(i, 500)), 0o600)
			_, h := put(t, s, from, 1, i+1)
			hashes = append(hashes, h)
		}
		// 1 was retained away, 2 and 3 are committed, 4 is on its way.
		committed := []Head{{Number: 2, Manifest: hashes[1]}, {Number: 3, Manifest: hashes[2]}}
		must(t, s.Retain(1, committed, nil, time.Now()))
		for i, want := range []bool{false, true, true, true} {
			if got := s.Has(hashes[i]); got != want {
				t.Errorf("save %d: held %v", i+1, got)
			}
		}
		for _, h := range s.Held() {
			must(t, s.Verify(t.Context(), h))
		}
		if got := s.Numbers(); !slices.Equal(got, []Number{2, 3}) {
			t.Errorf("numbers: %v", got)
		}
		// A newer generation: what was not committed never will be, unless it is pinned.
		must(t, s.See(2))
		must(t, s.Retain(2, committed[1:], []Hash{hashes[1]}, time.Now()))
		s = storeOn(t, disk)
		want := []Hash{hashes[1], hashes[2]}
		slices.SortFunc(want, func(a, b Hash) int { return slices.Compare(a[:], b[:]) })
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
	from := newMem()
	model(t, from)
	there := storeOn(t, newMem())
	m, _ := put(t, there, from, 1, 1)
	raw, _ := m.Encode()
	s := storeOn(t, newMem())
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
	s = storeOn(t, newMem())
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
	onEach(t, func(t *testing.T, make func() tree) {
		from := make()
		model(t, from)
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
		for _, bad := range []string{"", "other bytes", string(bytesOf(1, ChunkSize+1))} {
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
	from := newMem()
	model(t, from)
	s := storeOn(t, newMem())
	ctx, cancel := context.WithCancel(t.Context())
	from.hook = func(op, name string) error {
		if op == "read" {
			cancel()
		}
		return nil
	}
	if _, _, err := s.Put(ctx, saveOf(t, from, 1, 1)); !errors.Is(err, context.Canceled) || len(s.Held()) > 0 {
		t.Errorf("put: %v", err)
	}
}
