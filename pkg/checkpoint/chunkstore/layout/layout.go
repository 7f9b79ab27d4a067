// Package layout has the names in the directory of a chunk store, and reads the files there that
// both the store and its readers need.
package layout

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
	Generation = "generation" // the newest that this node read in the store of the job
	Heads      = "heads"      // commit records of the checkpoints on this disk
	Inventory  = "inventory"  // of the checkpoint directory
	Late       = "late"       // the record of a checkpoint that came too late, until it is offered
)

var (
	// ErrNotHeld says that a manifest or a chunk is not on this disk.
	ErrNotHeld = errors.New("not held here")
	// ErrDamaged says that bytes on disk, or from a peer, are not those that their hash names.
	ErrDamaged = errors.New("damaged")
)

// Lost reports whether err says that bytes cannot be had back from their disk: the file is gone or
// short, or the disk fails to read it. A file that this process may not read is not lost.
func Lost(err error) bool {
	for _, lost := range []error{fs.ErrNotExist, io.EOF, io.ErrUnexpectedEOF, syscall.EIO, syscall.EBADMSG,
		syscall.EUCLEAN} {
		if errors.Is(err, lost) {
			return true
		}
	}
	return false
}

// ChunkPath puts all chunks into one directory, so that a checkpoint needs one sync of names.
func ChunkPath(h manifest.Hash) string { return path.Join(Chunks, h.String()) }

// ReadManifest reads the bytes of a manifest, also of a checkpoint of which only parts are there:
// fs.ErrNotExist, ErrDamaged.
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

// ReadHeads reads the commit records; none where the file is missing or damaged: the owner of the
// store writes it anew from the record of the job.
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
