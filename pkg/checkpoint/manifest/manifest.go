package manifest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/elasticd/elastic/pkg/schema"
)

// ChunkSize is the size of every chunk of a file but its last.
const ChunkSize = 4 << 20

// What a manifest may ask for at most. It comes from another machine, and
// names what will be written to this one.
const (
	MaxSize  = 64 << 20 // bytes
	MaxFiles = 100_000
	MaxBytes = 4 << 40
	maxPath  = 1024
	maxName  = 255
	MaxDepth = 32

	Format = 1
)

// MostParts is how many parts of a node are kept that are not committed yet: its newest.
const MostParts = 8

// ErrBadPath says that a save has a name that no manifest may have.
var ErrBadPath = errors.New("bad path in the save")

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
	Cursor     *Cursor           `json:"cursor,omitempty"` // nil: the script did not tell it
	// by name, and as often as each save of these workers writes it
	Written []string `json:"written,omitempty"`
	// those that each save of these workers opens and closes more than once
	Reopened []string `json:"reopened,omitempty"`
	// of a save that other nodes have other parts of: no checkpoint
	Part bool `json:"part,omitempty"`
	// the node that captured that part; its captures have a Sequence of their own
	Of string `json:"of,omitempty"`
	// Parts are the manifests of the parts that it was merged of, in the order of the members.
	Parts []Hash `json:"parts,omitempty"`
	// Directories are restored as a whole, with nothing else in them; nil: all at the top.
	Directories []string  `json:"directories"`
	Time        time.Time `json:"time"`
	Files       Files     `json:"files"` // by path, ascending
}

// Cursor is the position in the data that the steps of a checkpoint have reached. A sampler of
// another seed or size cannot go on from it.
type Cursor struct {
	Epoch       int64   `json:"epoch"`
	Consumed    int64   `json:"consumed"` // samples of that epoch, of all ranks
	Seed        *uint64 `json:"seed,omitempty"`
	DatasetSize *int64  `json:"dataset_size,omitempty"`
}

func (c *Cursor) String() string {
	of := ""
	if c.DatasetSize != nil {
		of = fmt.Sprintf(" of %d", *c.DatasetSize)
	}
	return fmt.Sprintf("epoch %d, %d%s samples of it", c.Epoch, c.Consumed, of)
}

// Files are read one by one: a list of millions that says nothing is refused before it takes any
// memory.
type Files []File

// UnmarshalJSON reads a list of at most MaxFiles.
func (f *Files) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if open, err := d.Token(); err != nil || open != json.Delim('[') {
		return errors.New("files is no list")
	}
	*f = nil
	for d.More() {
		if len(*f) == MaxFiles {
			return fmt.Errorf("more than %d files", MaxFiles)
		}
		var one File
		if err := d.Decode(&one); err != nil {
			return err
		}
		if one.Path == "" {
			return errors.New("a file without a path")
		}
		*f = append(*f, one)
	}
	return nil
}

// File is one file of a checkpoint.
type File struct {
	Path   string      `json:"path"` // below the checkpoint directory, with slashes
	Size   int64       `json:"size"`
	Mode   fs.FileMode `json:"mode"` // permissions only
	Chunks Chunks      `json:"chunks"`
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

// Decode reads what Encode wrote, wherever it comes from:
// ErrBadManifest unless every path and size in it may be acted on;
// schema.ErrNewerFormat if a newer version wrote it.
func Decode(b []byte) (*Manifest, error) {
	if len(b) > MaxSize {
		return nil, fmt.Errorf("%w: %d bytes", ErrBadManifest, len(b))
	}
	m := new(Manifest)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadManifest, err)
	}
	if m.Format > Format {
		return nil, fmt.Errorf("manifest of format %d: %w", m.Format, schema.ErrNewerFormat)
	}
	if err := m.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadManifest, err)
	}
	return m, nil
}

func (m *Manifest) Check() error {
	if m.Format != Format || !schema.ValidName(string(m.Job)) || m.WorldSize < 0 {
		return fmt.Errorf("format %d, job %q, world size %d", m.Format, m.Job, m.WorldSize)
	}
	if len(m.Files) == 0 || len(m.Files) > MaxFiles {
		return fmt.Errorf("%d files", len(m.Files))
	}
	var total int64
	last := ""
	if len(m.Parts) > maxHolders || m.Part && m.Parts != nil || m.Of != "" && !schema.ValidName(m.Of) {
		return fmt.Errorf("%d parts, of node %q", len(m.Parts), m.Of)
	}
	dirs, sizes := map[string]bool{}, map[Hash]int64{}
	for _, f := range m.Files {
		if err := CheckPath(f.Path); err != nil {
			return err
		}
		if f.Path <= last {
			return fmt.Errorf("%q after %q", f.Path, last)
		}
		last = f.Path
		if f.Size < 0 || f.Size > MaxBytes-total || f.Mode&^fs.ModePerm != 0 {
			return fmt.Errorf("%q: size %d, mode %o", f.Path, f.Size, f.Mode)
		}
		total += f.Size
		if int64(len(f.Chunks)) != ChunkCount(f.Size) {
			return fmt.Errorf("%q: %d chunks for %d bytes", f.Path, len(f.Chunks), f.Size)
		}
		for i, h := range f.Chunks {
			size := ChunkLen(f.Size, i)
			if was, ok := sizes[h]; ok && was != size {
				return fmt.Errorf("%q: chunk %v of %d and of %d bytes", f.Path, h, was, size)
			}
			sizes[h] = size
		}
		for d := path.Dir(f.Path); d != "."; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	entry := m.Entry == "" || dirs[m.Entry]
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

// CheckPath refuses what could leave the directory that it is put into, and
// names that this package keeps for itself.
func CheckPath(p string) error {
	parts := strings.Split(p, "/")
	switch {
	case !utf8.ValidString(p):
		return fmt.Errorf("path %q is not UTF-8", p)
	case len(p) > maxPath:
		return fmt.Errorf("path %q has %d bytes, and %d at most are possible", p, len(p), maxPath)
	case len(parts) > MaxDepth:
		return ErrTooDeep{p}
	case strings.HasPrefix(parts[0], ReservedPrefix):
		return fmt.Errorf("path %q begins like the agent's own names", p)
	case !fs.ValidPath(p), p == ".", strings.Contains(p, "\x00"):
		return fmt.Errorf("path %q is no relative path below the directory", p)
	}
	for _, s := range parts {
		if len(s) > maxName {
			return fmt.Errorf("path %q has a name of %d bytes, and %d at most are possible", p, len(s), maxName)
		}
	}
	return nil
}

// ErrTooDeep says that a path has more than MaxDepth parts. It is an ErrBadPath.
type ErrTooDeep struct{ Path string }

func (e ErrTooDeep) Error() string {
	return fmt.Sprintf("path %q lies deeper than %d directories", e.Path, MaxDepth)
}

func (ErrTooDeep) Is(target error) bool { return target == ErrBadPath }

// ReservedPrefix starts the names that this package makes inside a checkpoint directory
// while it puts files back. They are never captured.
const ReservedPrefix = ".elastic-tmp-"

func ChunkCount(size int64) int64 { return (size + ChunkSize - 1) / ChunkSize }

// ChunkLen is the size of the i-th chunk of a file.
func ChunkLen(size int64, i int) int64 {
	return min(ChunkSize, size-int64(i)*ChunkSize)
}

// DistinctChunks yields every distinct chunk once, with its size.
func (m *Manifest) DistinctChunks() iter.Seq2[Hash, int64] {
	return func(yield func(Hash, int64) bool) {
		seen := map[Hash]bool{}
		for _, f := range m.Files {
			for i, h := range f.Chunks {
				if seen[h] {
					continue
				}
				seen[h] = true
				if !yield(h, ChunkLen(f.Size, i)) {
					return
				}
			}
		}
	}
}

// Contains reports whether the manifest has files at or below name.
func (m *Manifest) Contains(name string) bool {
	return slices.ContainsFunc(m.Files, func(f File) bool {
		return f.Path == name || strings.HasPrefix(f.Path, name+"/")
	})
}

func TopOf(p string) string {
	top, _, _ := strings.Cut(p, "/")
	return top
}

// Copy writes the bytes of the file to w, chunk by chunk. load fills dst with a chunk and checks
// its hash.
func (f File) Copy(ctx context.Context, w io.Writer, load func(h Hash, dst []byte) error) error {
	buf := make([]byte, min(ChunkSize, f.Size))
	for i, h := range f.Chunks {
		if err := ctx.Err(); err != nil {
			return err
		}
		data := buf[:ChunkLen(f.Size, i)]
		if err := load(h, data); err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	return nil
}

// Unit is the directory of the manifest that the file is restored with, or the file itself.
func (m *Manifest) Unit(f File) string {
	if m.Directories == nil {
		return TopOf(f.Path)
	}
	for _, d := range m.Directories {
		if strings.HasPrefix(f.Path, d+"/") {
			return d
		}
	}
	return f.Path
}

// FileHash is the SHA-256 of the whole file where its chunks tell it.
func (f File) FileHash() (h Hash, known bool) {
	switch len(f.Chunks) {
	case 0:
		return sha256.Sum256(nil), true
	case 1:
		return f.Chunks[0], true
	}
	return Hash{}, false
}
