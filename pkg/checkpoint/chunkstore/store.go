// Package chunkstore is one node's disk of checkpoints: chunks named by their hash,
// each stored once, and manifests named by theirs. What it reports as held is complete,
// verified and durable.
package chunkstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/layout"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/schema"
)

var (
	// ErrFenced says that a newer generation exists: what was asked can never succeed any more.
	ErrFenced  = errors.New("a newer generation was proposed")
	ErrNotHeld = layout.ErrNotHeld // a manifest or a chunk is not on this disk
	ErrDamaged = layout.ErrDamaged // bytes on disk, or from a peer, are not those that their hash names
)

// Store is one node's disk: chunks by their hash, each once, and manifests by
// theirs. A manifest is there only if all its chunks are, verified and durable:
// it is written last and removed first.
//
//	chunks/<hash>   manifests/<hash>   partial/<hash>   generation   heads   inventory   tmp/
//
// It may be used by many goroutines; mu guards the fields below it.
type Store struct {
	disk    *dirfs.Disk
	syncing sync.Mutex // held through flush; taken before mu

	mu         sync.Mutex
	generation schema.Generation
	chunks     map[manifest.Hash]*chunk
	unsynced   map[manifest.Hash]dirfs.File // chunks that a crash could take, open
	renamed    bool                         // there are names of chunks that a crash could take
	held       map[manifest.Hash]manifest.Position
	partial    map[manifest.Hash]manifest.Partial // checkpoints of which only parts may be held
	damaged    map[manifest.Hash]damage           // not held, since Open
	offers     map[manifest.Hash]*offer
	drafts     map[manifest.Position]*offer        // chunks of saves whose manifest is still to come
	known      map[dirfs.FileState]manifest.Chunks // what the files of the newest Put consist of
	heads      []manifest.Head
	reserved   int64
	changed    chan struct{}
	incoming   chan struct{}
}

// Open opens the store in dir, which it makes if need be. One process at a time may have it.
func Open(dir string) (*Store, error) {
	t, err := dirfs.Make(dir)
	if err != nil {
		return nil, err
	}
	s, err := OpenFS(t)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open checkpoint store: %w", err), t.Close())
	}
	return s, nil
}

// Abandon has the store take nothing more, because its directory was removed or replaced. What it has can
// still be read.
func (s *Store) Abandon() { s.disk.Abandon() }

func OpenFS(t dirfs.FS) (*Store, error) {
	s := &Store{
		disk:     dirfs.NewDisk(t, layout.Temp+"/"),
		chunks:   map[manifest.Hash]*chunk{},
		unsynced: map[manifest.Hash]dirfs.File{},
		renamed:  true, // a process that died may have left names unsynced
		held:     map[manifest.Hash]manifest.Position{},
		partial:  map[manifest.Hash]manifest.Partial{},
		damaged:  map[manifest.Hash]damage{},
		offers:   map[manifest.Hash]*offer{},
		drafts:   map[manifest.Position]*offer{},
		known:    map[dirfs.FileState]manifest.Chunks{},
		changed:  make(chan struct{}, 1),
		incoming: make(chan struct{}, 1),
	}
	if err := s.disk.RemoveAll(layout.Temp); err != nil {
		return nil, err
	}
	for _, d := range []string{layout.Temp, layout.Manifests, layout.Partial, layout.Chunks} {
		if err := t.Mkdir(d, 0o700); err != nil {
			return nil, err
		}
	}
	if err := t.SyncDir("."); err != nil {
		return nil, err
	}
	if err := s.loadSeen(); err != nil {
		return nil, err
	}
	if err := s.loadChunks(); err != nil {
		return nil, err
	}
	return s, s.loadManifests()
}

func (s *Store) loadSeen() error {
	b, err := s.disk.ReadFile(layout.Generation, 32)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	g, err := schema.ParseGeneration(string(b))
	if err != nil {
		return fmt.Errorf("the file %s of the checkpoint store is damaged: %w", layout.Generation, err)
	}
	s.generation = g
	return nil
}

func (s *Store) loadChunks() error {
	list, err := s.disk.FS.ReadDir(layout.Chunks)
	for _, e := range list {
		var h manifest.Hash
		if h.UnmarshalText([]byte(e.Name())) == nil {
			s.chunk(h).present = true
		}
	}
	return err
}

// loadManifests loads the whole checkpoints. A damaged one, or one that lacks a chunk, does not
// count as held: what is damaged is fetched again.
func (s *Store) loadManifests() error {
	err := s.eachManifest(layout.Manifests, func(h manifest.Hash, m *manifest.Manifest) {
		if m != nil && s.whole(m) {
			s.add(h, m)
		} else {
			s.addDamaged(h, damage{layout.Manifests, m})
		}
	})
	if err != nil {
		return err
	}
	if err := s.loadPartial(); err != nil {
		return err
	}
	s.heads, err = layout.ReadHeads(s.disk)
	s.addLost()
	return err
}

// eachManifest calls take for each manifest of a directory; nil: its file is damaged.
func (s *Store) eachManifest(dir string, take func(manifest.Hash, *manifest.Manifest)) error {
	list, err := s.disk.FS.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		var h manifest.Hash
		if h.UnmarshalText([]byte(e.Name())) != nil {
			continue
		}
		m, err := s.readManifest(h)
		if errors.Is(err, ErrDamaged) || errors.Is(err, manifest.ErrBadManifest) {
			m, err = nil, nil
		}
		if err != nil {
			return err
		}
		take(h, m)
	}
	return nil
}

// whole reports whether every chunk is on disk. mu is held, or the Store is not shared yet.
func (s *Store) whole(m *manifest.Manifest) bool {
	for c := range m.DistinctChunks() {
		if k := s.chunks[c]; k == nil || !k.present {
			return false
		}
	}
	return true
}

// Close closes the directory.
func (s *Store) Close() error { return errors.Join(s.flush(), s.disk.FS.Close()) }

// Changed receives a value after the checkpoints that are held changed.
func (s *Store) Changed() <-chan struct{} { return s.changed }

// Incoming receives a value when another node begins to send a save: what the save before it
// replaced takes its room.
func (s *Store) Incoming() <-chan struct{} { return s.incoming }

// Held lists the manifests on this disk, each complete.
func (s *Store) Held() []manifest.Hash {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.held),
		func(a, b manifest.Hash) int { return slices.Compare(a[:], b[:]) })
}

// Positions are the manifests on this disk, and where each stands among the captures of its job.
func (s *Store) Positions() map[manifest.Hash]manifest.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.held)
}

// LastSequence is that of the newest capture of generation g on this disk; 0 if there is none.
func (s *Store) LastSequence(g schema.Generation) (n uint64) {
	for _, p := range s.Positions() {
		if p.Generation == g {
			n = max(n, p.Sequence)
		}
	}
	return n
}

// Has reports whether the checkpoint is on this disk.
func (s *Store) Has(h manifest.Hash) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.held[h]
	return ok
}

// Manifest reads a manifest: ErrNotHeld, ErrDamaged.
func (s *Store) Manifest(h manifest.Hash) (*manifest.Manifest, error) {
	if !s.Has(h) {
		return nil, fmt.Errorf("manifest %v: %w", h, ErrNotHeld)
	}
	m, err := s.readManifest(h)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return m, err
}

func (s *Store) readManifest(h manifest.Hash) (*manifest.Manifest, error) {
	b, err := s.RawManifest(h)
	if err != nil {
		return nil, err
	}
	return manifest.Decode(b)
}

// RawManifest reads the bytes of a manifest, also of a checkpoint of which only parts are here.
func (s *Store) RawManifest(h manifest.Hash) ([]byte, error) { return layout.ReadManifest(s.disk, h) }

// Generation is the newest generation that this node read in the store of the job.
func (s *Store) Generation() schema.Generation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.generation
}

// Raise makes g the newest generation, durably: from here on requests of older generations neither
// store nor remove anything. ErrFenced if g itself is older.
func (s *Store) Raise(g schema.Generation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g < s.generation {
		return fmt.Errorf("generation %d, %d was seen: %w", g, s.generation, ErrFenced)
	}
	if g > schema.MaxGeneration {
		return fmt.Errorf("generation %d is larger than any", g)
	}
	if g == s.generation {
		return nil
	}
	if err := s.disk.WriteFile(".", layout.Generation,
		[]byte(strconv.FormatUint(uint64(g), 10))); err != nil {
		return fmt.Errorf("keep generation %d: %w", g, err)
	}
	s.generation = g
	return nil
}

// fenced refuses a request of an older generation than this node knows. It does not raise it: g comes
// from a peer, and a wrong one would refuse every later save. Raise takes only generations that this
// node itself read in the store of the job.
func (s *Store) fenced(g schema.Generation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g < s.generation {
		return fmt.Errorf("generation %d, %d was seen: %w", g, s.generation, ErrFenced)
	}
	return nil
}

// encoded is a manifest as it is on disk, with its hash.
type encoded struct {
	manifest *manifest.Manifest
	raw      []byte
	hash     manifest.Hash
}

// publish makes the manifest durable, after its chunks, which are on disk,
// verified, and counted by the caller.
func (s *Store) publish(ctx context.Context, g schema.Generation, e encoded) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.flush(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if g < s.generation {
		return fmt.Errorf("generation %d, %d was seen: %w", g, s.generation, ErrFenced)
	}
	if !s.whole(e.manifest) {
		return fmt.Errorf("a chunk was lost to another transfer's failed sync: %w", ErrDamaged)
	}
	_, held := s.held[e.hash]
	if held {
		if _, err := s.RawManifest(e.hash); err == nil {
			return nil
		}
	}
	if err := s.disk.WriteFile(layout.Manifests, e.hash.String(), e.raw); err != nil {
		return err
	}
	if held { // its file had gone bad
		return nil
	}
	s.dropDamaged(e.hash)
	s.add(e.hash, e.manifest)
	s.tell()
	return nil
}

// add counts the chunks of a manifest that is on disk. mu is held, or the Store is not shared yet.
func (s *Store) add(h manifest.Hash, m *manifest.Manifest) {
	s.held[h] = m.Position()
	for c := range m.DistinctChunks() {
		s.chunk(c).refs++
	}
}

func (s *Store) tell() { tell(s.changed) }

// tell puts a value into a channel that holds one.
func tell(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// room reserves space for n more bytes: ErrNoSpace. Written bytes leave the reservation piece by
// piece, because the file system counts them then.
func (s *Store) room(n int64) (*room, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &room{s: s}
	return r, r.grow(n)
}

type room struct {
	s    *Store
	left int64 // guarded by s.mu
}

// grow reserves n bytes more: ErrNoSpace. mu is held.
func (r *room) grow(n int64) error {
	if err := r.s.disk.CheckSpace(n, r.s.reserved); err != nil {
		return err
	}
	r.left += n
	r.s.reserved += n
	return nil
}

func (r *room) spend(n int64) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	n = min(n, r.left)
	r.left -= n
	r.s.reserved -= n
}

func (r *room) release() { r.spend(1<<63 - 1) }
