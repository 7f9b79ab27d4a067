package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/pkg/schema"
)

func sampleManifest() *Manifest {
	step := int64(120)
	return &Manifest{
		Format: Format, Job: "x", UID: "u1", Generation: 3, Sequence: 2, WorldSize: 4, Entry: "step-120",
		Step: &step,
		Time: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		Files: []File{
			{Path: "latest", Size: 8, Mode: 0o644, Chunks: Chunks{{1}}},
			{Path: "step-120/empty", Mode: 0o600, Chunks: Chunks{}},
			{Path: "step-120/model.pt", Size: ChunkSize + 1, Mode: 0o600, Chunks: Chunks{{2}, {3}}},
		},
	}
}

func TestManifestRoundTrip(t *testing.T) {
	m := sampleManifest()
	raw, h := m.Encode()
	if h != Sum(raw) {
		t.Error("the hash is not that of the bytes")
	}
	got, err := Decode(raw)
	must(t, err)
	if d := cmp.Diff(m, got); d != "" {
		t.Error(d)
	}
}

// Names and sizes come from another machine.
func TestManifestsThatAreRefused(t *testing.T) {
	path := func(p string) func(*Manifest) {
		return func(m *Manifest) { m.Files[0].Path = p }
	}
	for name, change := range map[string]func(*Manifest){
		"parent":            path("../evil"),
		"parent inside":     path("a/../../evil"),
		"absolute":          path("/etc/passwd"),
		"itself":            path("."),
		"empty name":        path(""),
		"double slash":      path("a//b"),
		"trailing slash":    path("a/"),
		"zero byte":         path("a\x00b"),
		"our own names":     path(ReservedPrefix + "1"),
		"too long":          path(strings.Repeat("a", maxName+1)),
		"too deep":          path(strings.Repeat("a/", MaxDepth) + "a"),
		"much too long":     path(strings.Repeat("abcdefgh/", 200) + "a"),
		"not sorted":        path("zzz"),
		"twice":             path("step-120/empty"),
		"file and dir":      path("step-120"),
		"negative size":     func(m *Manifest) { m.Files[0].Size = -1 },
		"giant size":        func(m *Manifest) { m.Files[0].Size = 1 << 62 },
		"giant sum":         func(m *Manifest) { m.Files[0].Size, m.Files[1].Size = MaxBytes, MaxBytes },
		"chunks missing":    func(m *Manifest) { m.Files[2].Chunks = m.Files[2].Chunks[:1] },
		"chunks too many":   func(m *Manifest) { m.Files[0].Chunks = append(m.Files[0].Chunks, Hash{9}) },
		"chunk of 2 sizes":  func(m *Manifest) { m.Files[0].Chunks[0] = Hash{2} },
		"set user id":       func(m *Manifest) { m.Files[0].Mode |= fs.ModeSetuid },
		"symbolic link":     func(m *Manifest) { m.Files[0].Mode |= fs.ModeSymlink },
		"device":            func(m *Manifest) { m.Files[0].Mode |= fs.ModeDevice },
		"directory":         func(m *Manifest) { m.Files[0].Mode |= fs.ModeDir },
		"no files":          func(m *Manifest) { m.Files = nil },
		"job with a slash":  func(m *Manifest) { m.Job = "a/b" },
		"entry elsewhere":   func(m *Manifest) { m.Entry = "step-1" },
		"entry outside":     func(m *Manifest) { m.Entry = "../x" },
		"format 0":          func(m *Manifest) { m.Format = 0 },
		"entry is a prefix": func(m *Manifest) { m.Entry = "step" },
	} {
		t.Run(name, func(t *testing.T) {
			m := sampleManifest()
			change(m)
			raw, _ := m.Encode()
			if _, err := Decode(raw); !errors.Is(err, ErrBadManifest) {
				t.Errorf("decode: %v", err)
			}
		})
	}
	m := sampleManifest()
	m.Format = Format + 1
	raw, _ := m.Encode()
	if _, err := Decode(raw); !errors.Is(err, schema.ErrNewerFormat) {
		t.Errorf("newer format: %v", err)
	}
	files := make([]File, MaxFiles+1)
	for i := range files {
		files[i] = File{Path: fmt.Sprintf("%08d", i), Chunks: Chunks{}}
	}
	m = sampleManifest()
	m.Entry, m.Files = "", files
	raw, _ = m.Encode()
	if _, err := Decode(raw); !errors.Is(err, ErrBadManifest) {
		t.Errorf("%d files: %v", len(files), err)
	}
	if _, err := Decode(make([]byte, MaxSize+1)); !errors.Is(err, ErrBadManifest) {
		t.Errorf("too many bytes: %v", err)
	}
}

// Whatever is accepted is safe to act on, and means the same written again.
func FuzzDecodeManifest(f *testing.F) {
	raw, _ := sampleManifest().Encode()
	f.Add(raw)
	for _, s := range []string{`{}`, `null`,
		`{"format":1,"job":"x","files":[{"path":"a","size":1,"mode":384,"chunks":"00"}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := Decode(raw)
		if err != nil {
			if !errors.Is(err, ErrBadManifest) && !errors.Is(err, schema.ErrNewerFormat) {
				t.Errorf("error of no kind: %v", err)
			}
			return
		}
		for _, f := range m.Files {
			if !fs.ValidPath(f.Path) || f.Path == "." || strings.Contains("/"+f.Path+"/", "/../") ||
				f.Size < 0 ||
				f.Mode != f.Mode.Perm() {
				t.Errorf("accepted %+v", f)
			}
		}
		again, _ := m.Encode()
		if m2, err := Decode(again); err != nil {
			t.Errorf("written again: %v", err)
		} else if a, _ := json.Marshal(m2); string(a) != string(again) {
			t.Errorf("written again: %s, was %s", a, again)
		}
	})
}
