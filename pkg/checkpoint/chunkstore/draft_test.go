package chunkstore

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// drafted is a save of a store, and an empty store that takes it as a draft.
type drafted struct {
	there, s *Store
	m        *manifest.Manifest
	chunks   []manifest.Hash // of the save, each once
}

func newDrafted(t *testing.T) *drafted {
	from := memfs.New()
	memfs.Model(t, from)
	d := &drafted{there: storeOn(t, memfs.New()), s: storeOn(t, memfs.New())}
	d.m, _ = put(t, d.there, from, 1, 3)
	for h := range d.m.DistinctChunks() {
		d.chunks = append(d.chunks, h)
	}
	slices.SortFunc(d.chunks, func(a, b manifest.Hash) int { return slices.Compare(a[:], b[:]) })
	return d
}

// send has the store take a chunk as one of the draft.
func (d *drafted) send(t *testing.T, h manifest.Hash) error {
	t.Helper()
	in, err := d.there.OpenChunk(h)
	must(t, err)
	defer in.Close()
	for c, size := range d.m.DistinctChunks() {
		if c == h {
			return d.s.WriteDraft(d.m.Position(), h, size, in)
		}
	}
	t.Fatalf("no chunk %v", h)
	return nil
}

// The chunks of a draft stay until the manifest is offered, which then lacks nothing.
func TestDraftBecomesHeld(t *testing.T) {
	d := newDrafted(t)
	for _, h := range append(d.chunks, d.chunks[0]) {
		must(t, d.send(t, h))
		must(t, d.s.Retain(1, nil, nil, time.Now()))
	}
	raw, h := d.m.Encode()
	if d.s.Has(h) {
		t.Error("held without a manifest")
	}
	if missing, err := d.s.Offer(t.Context(), 1, raw); missing != nil || err != nil {
		t.Fatal(missing, err)
	}
	must(t, d.s.Retain(1, nil, nil, time.Now()))
	must(t, d.s.Verify(t.Context(), h))
	if len(d.s.drafts) != 0 || len(d.s.offers) != 0 || d.s.reserved != 0 {
		t.Errorf("left: %d drafts, %d offers, %d bytes reserved", len(d.s.drafts), len(d.s.offers), d.s.reserved)
	}
	// The chunks belong to the manifest alone.
	must(t, d.s.Retain(2, nil, nil, time.Now()))
	if len(d.s.chunks) != 0 {
		t.Errorf("%d chunks are left of a save that was never committed", len(d.s.chunks))
	}
}

// A draft whose manifest never comes is removed: after a time, or in a newer generation.
func TestDraftIsForgotten(t *testing.T) {
	for name, forget := range map[string]func(s *Store) error{
		"idle":           func(s *Store) error { return s.Retain(1, nil, nil, time.Now().Add(2*offerIdle)) },
		"new generation": func(s *Store) error { return s.Retain(2, nil, nil, time.Now()) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrafted(t)
			must(t, d.send(t, d.chunks[0]))
			must(t, forget(d.s))
			if len(d.s.chunks) != 0 || d.s.reserved != 0 || len(d.s.drafts) != 0 {
				t.Errorf("%d chunks, %d bytes reserved, %d drafts",
					len(d.s.chunks), d.s.reserved, len(d.s.drafts))
			}
		})
	}
}

// A node copies one save at a time. When a later save comes, the earlier draft is abandoned, even
// if its manifest never came. Its chunks do not accumulate, and late ones are refused.
func TestLaterDraftReplacesTheOneBefore(t *testing.T) {
	d := newDrafted(t)
	must(t, d.send(t, d.chunks[0]))
	next := d.m.Position()
	next.Sequence++
	data := memfs.Bytes(9, 1000)
	must(t, d.s.WriteDraft(next, manifest.Sum(data), int64(len(data)), bytes.NewReader(data)))
	if err := d.send(t, d.chunks[1]); !errors.Is(err, ErrNotOffered) {
		t.Errorf("a late chunk of the draft before: %v", err)
	}
	must(t, d.s.Retain(1, nil, nil, time.Now()))
	if len(d.s.chunks) != 1 || len(d.s.drafts) != 1 || d.s.reserved != 0 {
		t.Errorf("%d chunks, %d drafts, %d bytes reserved; want those of the later draft alone",
			len(d.s.chunks), len(d.s.drafts), d.s.reserved)
	}
	select {
	case <-d.s.Incoming():
	default:
		t.Error("a save that comes in was not reported")
	}
}

func TestDraftRefusals(t *testing.T) {
	d := newDrafted(t)
	at, some := d.m.Position(), d.chunks[0]
	must(t, d.s.Raise(1))
	for name, c := range map[string]struct {
		at   manifest.Position
		size int64
		data string
		want error
	}{
		"other bytes":         {at, 5, "other", ErrDamaged},
		"more bytes":          {at, 1, "other", ErrDamaged},
		"no size":             {at, 0, "x", manifest.ErrBadManifest},
		"unknown size":        {at, -1, "x", manifest.ErrBadManifest},
		"larger than a chunk": {at, manifest.ChunkSize + 1, "x", manifest.ErrBadManifest},
		"old generation":      {manifest.Position{Generation: 0, Sequence: 3}, 1, "x", ErrFenced},
	} {
		if err := d.s.WriteDraft(c.at, some, c.size, strings.NewReader(c.data)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, d.s.Retain(2, nil, nil, time.Now()))
	if len(d.s.chunks) != 0 || d.s.reserved != 0 {
		t.Errorf("refused chunks left %d chunks, %d bytes reserved", len(d.s.chunks), d.s.reserved)
	}
}

// A disk without room refuses a draft as it refuses an offer, and reserves nothing.
func TestDraftWithoutRoom(t *testing.T) {
	d := newDrafted(t)
	d.s.reserved = 1 << 62
	if err := d.send(t, d.chunks[0]); !errors.Is(err, dirfs.ErrNoSpace) {
		t.Errorf("no room: %v", err)
	}
	if d.s.reserved != 1<<62 || len(d.s.drafts) != 0 {
		t.Errorf("%d bytes reserved, %d drafts", d.s.reserved, len(d.s.drafts))
	}
}

// A chunk is followed once it can be opened, and only if it was not there before.
func TestPutFollowed(t *testing.T) {
	from := memfs.New()
	memfs.Model(t, from)
	s := storeOn(t, memfs.New())
	followed := make(chan manifest.Hash, 100)
	follow := func(l *LentChunk) {
		defer l.Return()
		h, size := l.Hash, l.Size
		c, err := s.OpenChunk(h)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		if n, err := io.Copy(io.Discard, c); err != nil || n != size {
			t.Errorf("chunk of %d bytes, reported %d: %v", n, size, err)
		}
		followed <- h
	}
	m, _, err := s.PutFollowed(t.Context(), saveOf(t, from, 1, 1), follow)
	must(t, err)
	chunks := 0
	for range m.DistinctChunks() {
		chunks++
	}
	if len(followed) < chunks {
		t.Errorf("%d of %d chunks were followed", len(followed), chunks)
	}
	before := len(followed)
	_, _, err = s.PutFollowed(t.Context(), saveOf(t, from, 1, 2), follow)
	must(t, err)
	if len(followed) != before {
		t.Errorf("%d chunks were followed that were there", len(followed)-before)
	}
}
