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

// ChunkSize is the size of every chunk of a file except the last.
const ChunkSize = 4 << 20

// Limits of a manifest. It comes from another machine, and lists files that this machine will
// write.
const (
	MaxSize  = 64 << 20 // bytes
	MaxFiles = 100_000
	MaxBytes = 4 << 40
	maxPath  = 1024
	maxName  = 255
	MaxDepth = 32

	Format = 1
)

// MostParts is how many parts of a node are kept that are not committed yet: the newest ones.
const MostParts = 8

// ErrBadPath means that a save has a file whose name no manifest may have.
var ErrBadPath = errors.New("bad path in the save")

// ErrBadManifest means that bytes are not a valid manifest.
var ErrBadManifest = errors.New("bad manifest")

// Manifest lists the files of a checkpoint. Its hash is its name. It does not have the number of
// the checkpoint, because only the commit assigns that.
type Manifest struct {
	Format     int               `json:"format"`
	Job        schema.Job        `json:"job"`
	UID        schema.UID        `json:"uid"`
	Generation schema.Generation `json:"generation"` // of the workers that wrote the bytes
	Sequence   uint64            `json:"sequence"`   // 1, 2, 3… of the captures of this generation
	WorldSize  int               `json:"world_size"`
	Entry      string            `json:"entry"` // the path from which a worker resumes; "" is the directory
	Step       *int64            `json:"step"`
	Samples    *int64            `json:"samples"`
	Cursor     *Cursor           `json:"cursor,omitempty"` // nil: the script did not state it
	// Part says that this is one part of a save, and no checkpoint: other nodes have the other
	// parts.
	Part bool `json:"part,omitempty"`
	// Of is the node that captured the part. Its captures have a Sequence of their own.
	Of string `json:"of,omitempty"`
	// Parts has the manifests of the parts that were merged, in the order of the members.
	Parts []Hash `json:"parts,omitempty"`
	// Directories are restored as a whole: they have no other files then. nil: all directories at
	// the top.
	Directories []string  `json:"directories"`
	Time        time.Time `json:"time"`
	Files       Files     `json:"files"` // by path, ascending
}

// Cursor is the position in the data that a checkpoint has reached. A sampler with another seed or
// data set size cannot continue from it.
type Cursor struct {
	Epoch       int64   `json:"epoch"`
	Consumed    int64   `json:"consumed"` // samples in that epoch, by all ranks
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

// Files is a list of files. It is decoded one file at a time, so that a list of millions of empty
// entries is refused before it takes memory.
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

// Bytes returns the total size of the files.
func (m *Manifest) Bytes() (n int64) {
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// Paths returns the paths of the files, ascending.
func (m *Manifest) Paths() (paths []string) {
	for _, f := range m.Files {
		paths = append(paths, f.Path)
	}
	return paths
}

// Encode returns the bytes of the manifest, and the hash that names it.
func (m *Manifest) Encode() ([]byte, Hash) {
	b, err := json.Marshal(m)
	if err != nil {
		panic("manifest cannot be written: " + err.Error()) // a bug: no input causes it
	}
	return b, sha256.Sum256(b)
}

// Decode reads the output of Encode, which may come from an untrusted machine. It returns
// ErrBadManifest if a path or size is not valid, and schema.ErrNewerFormat if a newer version wrote
// it.
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

// Check checks every path, size and number of a manifest.
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

// CheckPath refuses a path that could lead out of the checkpoint directory, and names that are
// reserved for Elastic.
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

// ErrTooDeep means that a path has more than MaxDepth parts. It is an ErrBadPath.
type ErrTooDeep struct{ Path string }

func (e ErrTooDeep) Error() string {
	return fmt.Sprintf("path %q lies deeper than %d directories", e.Path, MaxDepth)
}

func (ErrTooDeep) Is(target error) bool { return target == ErrBadPath }

// ReservedPrefix starts the names of temporary files in a checkpoint directory during a restore.
// They are never captured.
const ReservedPrefix = ".elastic-tmp-"

// ChunkCount returns the number of chunks of a file of that size.
func ChunkCount(size int64) int64 { return (size + ChunkSize - 1) / ChunkSize }

// ChunkLen returns the size of the i-th chunk of a file.
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

// TopOf returns the first name of a path.
func TopOf(p string) string {
	top, _, _ := strings.Cut(p, "/")
	return top
}

// CommonPath returns the deepest path that both paths are equal to or below; "": the checkpoint
// directory.
func CommonPath(a, b string) string {
	for a != b && !strings.HasPrefix(b, a+"/") && a != "" {
		a = a[:max(0, strings.LastIndexByte(a, '/'))]
	}
	return a
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

// Unit returns the directory with which the file is restored as a whole, or else the file itself.
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

// FileHash returns the SHA-256 of the whole file. It is known only for a file of at most one chunk.
func (f File) FileHash() (h Hash, known bool) {
	switch len(f.Chunks) {
	case 0:
		return sha256.Sum256(nil), true
	case 1:
		return f.Chunks[0], true
	}
	return Hash{}, false
}
