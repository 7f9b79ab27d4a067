package readonly

// This file has the file names of a chunk store, and reads files that both the store and its
// readers need.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"syscall"

	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// The directories of a chunk store.
const (
	Chunks    = "chunks"
	Manifests = "manifests"
	Partial   = "partial" // manifests of checkpoints of which this node has parts
	Temp      = "tmp"     // files that are being written
)

// The files of a chunk store.
const (
	Generation   = "generation" // the newest one that this node has read from the store of the job
	Heads        = "heads"      // commit records of the checkpoints on this disk
	Fingerprints = "inventory"  // of the entries of the checkpoint directory
	Brought      = "brought"    // the record of the checkpoint of an earlier job, until the job has it
)

var (
	// ErrNotHeld means that a manifest or a chunk is not on this disk.
	ErrNotHeld = errors.New("not held here")
	// ErrDamaged means that bytes on disk, or from a peer, do not have the right hash.
	ErrDamaged = errors.New("damaged")
)

// Lost reports whether err means that bytes are lost: the file is missing or short, or the disk
// cannot read it. A file without read permission is not lost.
func Lost(err error) bool {
	for _, lost := range []error{fs.ErrNotExist, io.EOF, io.ErrUnexpectedEOF, syscall.EIO, syscall.EBADMSG,
		syscall.EUCLEAN} {
		if errors.Is(err, lost) {
			return true
		}
	}
	return false
}

// ChunkPath returns the path of a chunk. All chunks are in one directory, so a checkpoint needs one
// sync of names.
func ChunkPath(h manifest.Hash) string { return path.Join(Chunks, h.String()) }

// ReadManifest reads the bytes of a manifest, also if only parts of the checkpoint are here.
// Errors: fs.ErrNotExist, ErrDamaged.
func ReadManifest(disk *dirfs.Disk, h manifest.Hash) ([]byte, error) {
	b, err := readManifest(disk, Manifests, h)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrDamaged) {
		if parts, err := readManifest(disk, Partial, h); !errors.Is(err, fs.ErrNotExist) {
			return parts, err
		}
	}
	return b, err
}

// readManifest is ReadManifest in one directory.
func readManifest(disk *dirfs.Disk, dir string, h manifest.Hash) ([]byte, error) {
	b, err := disk.ReadFile(path.Join(dir, h.String()), manifest.MaxSize)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	case Lost(err):
		return nil, fmt.Errorf("manifest %v: %w: %w", h, ErrDamaged, err)
	case err != nil:
		return nil, err
	case manifest.Sum(b) != h:
		return nil, fmt.Errorf("manifest %v: %w", h, ErrDamaged)
	}
	return b, nil
}

// ReadHeads reads the commit records. It returns none if the file is missing or damaged. The owner
// of the store then writes it again from the record of the job.
func ReadHeads(disk *dirfs.Disk) (heads []manifest.Head, err error) {
	b, err := disk.ReadFile(Heads, manifest.MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if json.Unmarshal(b, &heads) != nil {
		return nil, nil
	}
	for i := range heads {
		if heads[i].Validate() != nil {
			return nil, nil
		}
	}
	return heads, nil
}
