package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"strings"
	"time"

	"github.com/elasticd/elastic/pkg/schema"
)

// ChunkSize is the size of every chunk of a file but its last.
const ChunkSize = 4 << 20

// What a manifest may ask for at most. It comes from another machine, and
// names what will be written to this one.
const (
	maxManifest = 64 << 20 // bytes
	maxFiles    = 100_000
	maxBytes    = 4 << 40
	maxPath     = 1024
	maxName     = 255
	maxDepth    = 32

	manifestFormat = 1
)

// ErrBadManifest says that bytes are not a manifest that may be acted on.
var ErrBadManifest = errors.New("bad manifest")

// Manifest lists what a checkpoint consists of. Its hash names it; the number
// of the checkpoint is not in it, because only Commit gives one.
type Manifest struct {
	Format     int               `json:"format"`
	Job        schema.Job        `json:"job"`
	UID        schema.UID        `json:"uid"`
	Generation schema.Generation `json:"generation"` // of the workers that wrote the bytes
	Sequence   uint64            `json:"sequence"`   // 1, 2, 3… of the captures of this generation
	WorldSize  int               `json:"world_size"`
	Entry      string            `json:"entry"` // what a worker resumes from; "" is the directory itself
	Step       *int64            `json:"step"`
	Samples    *int64            `json:"samples"`
	Time       time.Time         `json:"time"`
	Files      []File            `json:"files"` // by path, ascending
}

// File is one file of a checkpoint.
type File struct {
	Path   string      `json:"path"` // below the checkpoint directory, with slashes
	Size   int64       `json:"size"`
	Mode   fs.FileMode `json:"mode"` // permissions only
	Chunks Chunks      `json:"chunks"`
}

// Chunks are the hashes of a file's chunks, in order.
type Chunks []Hash

// MarshalText writes the hashes as one string of hex.
func (c Chunks) MarshalText() ([]byte, error) {
	b := make([]byte, 0, len(c)*2*sha256.Size)
	for _, h := range c {
		b = hex.AppendEncode(b, h[:])
	}
	return b, nil
}

// UnmarshalText reads what MarshalText wrote.
func (c *Chunks) UnmarshalText(b []byte) error {
	const width = 2 * sha256.Size
	if len(b)%width != 0 {
		return fmt.Errorf("%d hexadecimal digits are no hashes", len(b))
	}
	*c = make(Chunks, 0, len(b)/width)
	for ; len(b) > 0; b = b[width:] {
		var h Hash
		if err := h.UnmarshalText(b[:width]); err != nil {
			return err
		}
		*c = append(*c, h)
	}
	return nil
}

// Bytes is the size of all files together.
func (m *Manifest) Bytes() (n int64) {
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// Encode returns the bytes of the manifest, and the hash that names it.
func (m *Manifest) Encode() ([]byte, Hash) {
	b, err := json.Marshal(m)
	if err != nil {
		panic("manifest cannot be written: " + err.Error()) // plain data: a bug, not an input
	}
	return b, sha256.Sum256(b)
}

// DecodeManifest reads what Encode wrote, wherever it comes from:
// ErrBadManifest unless every path and size in it may be acted on;
// schema.ErrNewerFormat if a newer version wrote it.
func DecodeManifest(b []byte) (*Manifest, error) {
	if len(b) > maxManifest {
		return nil, fmt.Errorf("%w: %d bytes", ErrBadManifest, len(b))
	}
	m := new(Manifest)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadManifest, err)
	}
	if m.Format > manifestFormat {
		return nil, fmt.Errorf("manifest of format %d: %w", m.Format, schema.ErrNewerFormat)
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadManifest, err)
	}
	return m, nil
}

func (m *Manifest) check() error {
	if m.Format != manifestFormat || !schema.ValidName(string(m.Job)) || m.WorldSize < 0 {
		return fmt.Errorf("format %d, job %q, world size %d", m.Format, m.Job, m.WorldSize)
	}
	if len(m.Files) == 0 || len(m.Files) > maxFiles {
		return fmt.Errorf("%d files", len(m.Files))
	}
	var total int64
	last := ""
	dirs, sizes := map[string]bool{}, map[Hash]int64{}
	for _, f := range m.Files {
		if err := checkPath(f.Path); err != nil {
			return err
		}
		if f.Path <= last {
			return fmt.Errorf("%q after %q", f.Path, last)
		}
		last = f.Path
		if f.Size < 0 || f.Size > maxBytes-total || f.Mode&^fs.ModePerm != 0 {
			return fmt.Errorf("%q: size %d, mode %o", f.Path, f.Size, f.Mode)
		}
		total += f.Size
		if int64(len(f.Chunks)) != chunksOf(f.Size) {
			return fmt.Errorf("%q: %d chunks for %d bytes", f.Path, len(f.Chunks), f.Size)
		}
		for i, h := range f.Chunks {
			size := chunkAt(f.Size, i)
			if was, ok := sizes[h]; ok && was != size {
				return fmt.Errorf("%q: chunk %v of %d and of %d bytes", f.Path, h, was, size)
			}
			sizes[h] = size
		}
		for d := path.Dir(f.Path); d != "."; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	entry := m.Entry == "" || dirs[m.Entry] && !strings.Contains(m.Entry, "/")
	for _, f := range m.Files {
		if dirs[f.Path] {
			return fmt.Errorf("%q is a file and a directory", f.Path)
		}
		entry = entry || f.Path == m.Entry
	}
	if !entry {
		return fmt.Errorf("entry %q is not among the files", m.Entry)
	}
	return nil
}

// checkPath refuses what could leave the directory that it is put into, and
// names that this package keeps for itself.
func checkPath(p string) error {
	if !fs.ValidPath(p) || p == "." || len(p) > maxPath || strings.Contains(p, "\x00") {
		return fmt.Errorf("path %q", p)
	}
	parts := strings.Split(p, "/")
	if len(parts) > maxDepth || strings.HasPrefix(parts[0], own) {
		return fmt.Errorf("path %q", p)
	}
	for _, s := range parts {
		if len(s) > maxName {
			return fmt.Errorf("path %q", p)
		}
	}
	return nil
}

// own starts the names that this package makes inside a checkpoint directory
// while it puts files back. They are never captured.
const own = ".elastic-tmp-"

func chunksOf(size int64) int64 { return (size + ChunkSize - 1) / ChunkSize }

// chunkAt is the size of the i-th chunk of a file.
func chunkAt(size int64, i int) int64 {
	return min(ChunkSize, size-int64(i)*ChunkSize)
}

// chunks yields every distinct chunk once, with its size.
func (m *Manifest) chunks() iter.Seq2[Hash, int64] {
	return func(yield func(Hash, int64) bool) {
		seen := map[Hash]bool{}
		for _, f := range m.Files {
			for i, h := range f.Chunks {
				if seen[h] {
					continue
				}
				seen[h] = true
				if !yield(h, chunkAt(f.Size, i)) {
					return
				}
			}
		}
	}
}
