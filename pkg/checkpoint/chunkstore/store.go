// Package chunkstore stores checkpoints on one node's disk: chunks named by their hash, each once,
// and manifests named by theirs. A held checkpoint is complete, verified and durable.
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

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/schema"
)

var (
	// ErrFenced means that a newer generation exists, so the request can never succeed.
	ErrFenced  = errors.New("a newer generation was proposed")
	ErrNotHeld = readonly.ErrNotHeld // a manifest or a chunk is not on this disk
	ErrDamaged = readonly.ErrDamaged // bytes on disk, or from a peer, do not have their hash
	ErrRemoved = dirfs.ErrRemoved    // the directory of the store was removed: see Abandon
)

// Store is the chunk store of one node. It has a manifest only if all chunks of it are verified and
// durable: the manifest is written last and removed first.
//
//	chunks/<hash>   manifests/<hash>   partial/<hash>   generation   heads   inventory   tmp/
//
// Many goroutines may use it. mu guards the fields below it.
type Store struct {
	disk    *dirfs.Disk
	syncing sync.Mutex // held during flush; locked before mu

	mu         sync.Mutex
	generation schema.Generation
	chunks     map[manifest.Hash]*chunk
	unsynced   map[manifest.Hash]dirfs.File // open files of chunks that are not durable yet
	renamed    bool                         // names of chunks are not durable yet
	held       map[manifest.Hash]manifest.Position
	partial    map[manifest.Hash]manifest.Partial // checkpoints of which this disk may have only parts
	damaged    map[manifest.Hash]damage           // found by Open; not in held
	offers     map[manifest.Hash]*offer
	drafts     map[manifest.Position]*offer        // chunks of saves whose manifest is not offered yet
	known      map[dirfs.FileState]manifest.Chunks // the chunks of the files of the newest Put
	heads      []manifest.Head                     // the commit records in the file heads
	reserved   int64                               // bytes of all rooms
	changed    chan struct{}                       // see Changed
	incoming   chan struct{}                       // see Incoming
}

func directories() []string {
	return []string{readonly.Temp, readonly.Manifests, readonly.Partial, readonly.Chunks}
}

// OpenFS is Open in an open directory.
func OpenFS(t dirfs.FS) (*Store, error) {
	s := &Store{
		disk:     dirfs.NewDisk(t, readonly.Temp+"/"),
		chunks:   map[manifest.Hash]*chunk{},
		unsynced: map[manifest.Hash]dirfs.File{},
		renamed:  true, // a process that was killed may have left names that are not durable
		held:     map[manifest.Hash]manifest.Position{},
		partial:  map[manifest.Hash]manifest.Partial{},
		damaged:  map[manifest.Hash]damage{},
		offers:   map[manifest.Hash]*offer{},
		drafts:   map[manifest.Position]*offer{},
		known:    map[dirfs.FileState]manifest.Chunks{},
		changed:  make(chan struct{}, 1),
		incoming: make(chan struct{}, 1),
	}
	if err := s.disk.RemoveAll(readonly.Temp); err != nil {
		return nil, err
	}
	for _, d := range directories() {
		if err := t.Mkdir(d, 0o700); err != nil {
			return nil, err
		}
	}
	if err := t.SyncDir("."); err != nil {
		return nil, err
	}
	if err := s.loadGeneration(); err != nil {
		return nil, err
	}
	if err := s.loadChunks(); err != nil {
		return nil, err
	}
	return s, s.loadManifests()
}

func (s *Store) loadGeneration() error {
	b, err := s.disk.ReadFile(readonly.Generation, 32)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	g, err := schema.ParseGeneration(string(b))
	if err != nil {
		return fmt.Errorf("the file %s of the checkpoint store is damaged: %w", readonly.Generation, err)
	}
	s.generation = g
	return nil
}

func (s *Store) loadChunks() error {
	list, err := s.disk.FS.ReadDir(readonly.Chunks)
	for _, e := range list {
		var h manifest.Hash
		if h.UnmarshalText([]byte(e.Name())) == nil {
			s.chunk(h).present = true
		}
	}
	return err
}

// loadManifests loads the checkpoints that have all their chunks. A damaged one is not held, and is
// fetched again.
func (s *Store) loadManifests() error {
	err := s.eachManifest(readonly.Manifests, func(h manifest.Hash, m *manifest.Manifest) {
		if m != nil && s.whole(m) {
			s.add(h, m)
		} else {
			s.addDamaged(h, damage{readonly.Manifests, m})
		}
	})
	if err != nil {
		return err
	}
	if err := s.loadPartial(); err != nil {
		return err
	}
	s.heads, err = readonly.ReadHeads(s.disk)
	s.addLost()
	return err
}

// eachManifest calls take for each manifest of a directory, with nil if the file is damaged.
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

// whole reports whether all chunks of m are on disk. mu is held, or the Store is not shared yet.
func (s *Store) whole(m *manifest.Manifest) bool {
	for c := range m.DistinctChunks() {
		if k := s.chunks[c]; k == nil || !k.present {
			return false
		}
	}
	return true
}

// Close makes all chunks durable, and closes the directory.
func (s *Store) Close() error { return errors.Join(s.flush(), s.disk.FS.Close()) }

// Changed receives a value after the held checkpoints have changed.
func (s *Store) Changed() <-chan struct{} { return s.changed }

// Incoming receives a value when another node starts to send a save. Removing replaced checkpoints
// then makes room for it.
func (s *Store) Incoming() <-chan struct{} { return s.incoming }

// Held lists the manifests on this disk. Each has all its chunks.
func (s *Store) Held() []manifest.Hash {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.held),
		func(a, b manifest.Hash) int { return slices.Compare(a[:], b[:]) })
}

// Positions returns the held manifests with their positions among the captures of the job.
func (s *Store) Positions() map[manifest.Hash]manifest.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.held)
}

// LastSequence returns the sequence of generation g's newest capture on this disk; 0 if there is
// none.
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

// Manifest reads a manifest. Errors: ErrNotHeld, ErrDamaged.
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

// RawManifest reads the bytes of a manifest, also if only parts of the checkpoint are here.
func (s *Store) RawManifest(h manifest.Hash) ([]byte, error) { return readonly.ReadManifest(s.disk, h) }

// Generation returns the newest generation that this node has read from the store of the job.
func (s *Store) Generation() schema.Generation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.generation
}

// Raise sets the newest generation to g, durably. Requests of older generations can then neither
// store nor remove anything. It fails with ErrFenced if g is older than the current one.
func (s *Store) Raise(g schema.Generation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkFence(g); err != nil {
		return err
	}
	if g > schema.MaxGeneration {
		return fmt.Errorf("generation %d is larger than any", g)
	}
	if g == s.generation {
		return nil
	}
	if err := s.disk.WriteFile(".", readonly.Generation,
		[]byte(strconv.FormatUint(uint64(g), 10))); err != nil {
		return fmt.Errorf("keep generation %d: %w", g, err)
	}
	s.generation = g
	return nil
}

// fenced fails for a request of an older generation. It does not raise the generation, because g
// comes from a peer, and a wrong g would refuse all later saves. Raise gets only generations that
// this node has read from the store of the job.
func (s *Store) fenced(g schema.Generation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.checkFence(g)
}

// checkFence is fenced with mu held.
func (s *Store) checkFence(g schema.Generation) error {
	if g < s.generation {
		return fmt.Errorf("generation %d, %d was seen: %w", g, s.generation, ErrFenced)
	}
	return nil
}

// encoded is a manifest with its bytes and its hash.
type encoded struct {
	manifest *manifest.Manifest
	raw      []byte
	hash     manifest.Hash
}

// publish makes the manifest durable. Its chunks must be on disk, verified, and pinned by the
// caller.
func (s *Store) publish(ctx context.Context, g schema.Generation, e encoded) error {
	if err := errors.Join(ctx.Err(), s.disk.Abandoned()); err != nil {
		return err
	}
	if err := s.flush(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkFence(g); err != nil {
		return err
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
	if err := s.disk.WriteFile(readonly.Manifests, e.hash.String(), e.raw); err != nil {
		return err
	}
	if held { // its file was damaged
		return nil
	}
	s.dropDamaged(e.hash)
	s.add(e.hash, e.manifest)
	s.tell()
	return nil
}

// add counts the chunks of a manifest on disk. mu is held, or the Store is not shared yet.
func (s *Store) add(h manifest.Hash, m *manifest.Manifest) {
	s.held[h] = m.Position()
	for c := range m.DistinctChunks() {
		s.chunk(c).refs++
	}
}

func (s *Store) tell() { tell(s.changed) }

// tell sends a value to a channel, unless it has one.
func tell(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// room reserves n bytes, or fails with ErrNoSpace. The caller spends the bytes that it has written,
// because the file system counts those itself.
func (s *Store) room(n int64) (*room, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &room{s: s}
	return r, r.grow(n)
}

// room is disk space that is reserved for bytes that are still to be written.
type room struct {
	s    *Store
	left int64 // guarded by s.mu
}

// grow reserves n more bytes, or fails with ErrNoSpace. mu is held.
func (r *room) grow(n int64) error {
	if err := r.s.disk.CheckSpace(n, r.s.reserved); err != nil {
		return err
	}
	r.left += n
	r.s.reserved += n
	return nil
}

// spend ends the reservation of n bytes.
func (r *room) spend(n int64) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	n = min(n, r.left)
	r.left -= n
	r.s.reserved -= n
}

func (r *room) release() { r.spend(1<<63 - 1) }
