package capture

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"slices"
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint/checkpointtest"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
)

// checkBytes runs check over a file of these bytes.
func checkBytes(t *testing.T, name string, data []byte) wholeness {
	t.Helper()
	tree := memfs.New()
	memfs.WriteFile(t, tree, name, data, 0o600)
	files, err := dirfs.Walk(tree, name, nil)
	must(t, err)
	got, err := check(tree, files[0])
	must(t, err)
	return got
}

// What CPython 3.11 writes for {"epoch": 3, "w": b"\0"*300, "s": "x"*300, "big": 2**100, "f": 1.5}.
const pickled = "\x80\x04\x95\xa6\x02\x00\x00\x00\x00\x00\x00}\x94(\x8c\x05epoch\x94K\x03\x8c\x01w\x94B,\x01\x00\x00"

func pickleOf() []byte {
	var b bytes.Buffer
	b.WriteString(pickled)
	b.Write(make([]byte, 300))
	b.WriteString("\x94\x8c\x01s\x94X,\x01\x00\x00")
	b.Write(bytes.Repeat([]byte("x"), 300))
	b.WriteString("\x94\x8c\x03big\x94\x8a\x0d\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x10\x8c\x01f\x94G?\xf8\x00\x00\x00\x00\x00\x00u.")
	return b.Bytes()
}

func safetensorsOf() []byte {
	header := `{"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}`
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, 12)...)
}

// Every prefix of a file that says where it ends is torn, and the file is whole.
func TestCheckEveryPrefix(t *testing.T) {
	for name, data := range map[string][]byte{
		"model.pt": checkpointtest.Zip(t,
			map[string]string{"data.pkl": "tree", "data/0": "weights of a model"}),
		"model.pdparams":    pickleOf(),
		"two.pdparams":      append(pickleOf(), pickleOf()...),
		"model.safetensors": safetensorsOf(),
	} {
		if got := checkBytes(t, name, data); got != whole {
			t.Errorf("%s: %v, want whole", name, got)
		}
		one := len(pickleOf())
		for n := 8; n < len(data); n++ {
			if name == "two.pdparams" && (n == one || n == one+1) {
				continue // one whole pickle, and a byte that could begin anything
			}
			if got := checkBytes(t, name, data[:n]); got != torn {
				t.Fatalf("%s cut at %d of %d: %v, want torn", name, n, len(data), got)
			}
		}
	}
}

func TestCheckDamage(t *testing.T) {
	z := checkpointtest.Zip(t, map[string]string{"data.pkl": "weights of a model"})
	z[bytes.Index(z, []byte("weights"))] ^= 1
	if got := checkBytes(t, "model.pt", z); got != torn {
		t.Errorf("zip with a flipped bit: %v", got)
	}
	p := pickleOf()
	clear(p[len(p)-40:])
	if got := checkBytes(t, "model.pdparams", p); got != torn {
		t.Errorf("pickle that ends in zeros: %v", got)
	}
	outside := "PK\x03\x04PK\x01\x02000000000000000000000000\x01\x00\x00\x00\x00\x0000000000 \x00\x00\x000PK\x05\x06000000\x01\x00/\x00\x00\x000000\x00\x00"
	if got := checkBytes(t, "model.pt", []byte(outside)); got != torn {
		t.Errorf("zip that points before its own beginning: %v", got)
	}
	if got := checkBytes(t, "weights.raw", []byte("anything at all")); got != opaque {
		t.Errorf("unknown format: %v", got)
	}
	if got := checkBytes(t, "weights.raw", []byte("\x80\x03\x00\x00\x00\x00\x00\x00\x00")); got != opaque {
		t.Errorf("unknown format that begins like a pickle: %v", got)
	}
}

// torch's distributed checkpoint writes one zip behind another, with offsets from the begin of
// each.
func TestArchivesBehindEachOther(t *testing.T) {
	one := checkpointtest.Zip(t, map[string]string{"data": "weights"})
	offset := bytes.LastIndex(one, []byte("PK\x05\x06")) + 16
	binary.LittleEndian.PutUint32(one[offset:], 1<<20) // as zip64 has it: it is found by no reader of the whole file
	if got := checkBytes(t, "__0_0.distcp", append(slices.Clone(one), one...)); got == torn {
		t.Error("shards of a distributed checkpoint are taken for torn")
	}
	if got := checkBytes(t, "model.pt", one); got != torn {
		t.Error("the same in a file of one archive is not noticed")
	}
}

func FuzzCheck(f *testing.F) {
	f.Add("a.pt", checkpointtest.Zip(f, map[string]string{"a": "b"}))
	f.Add("a.pdparams", pickleOf())
	f.Add("a.safetensors", safetensorsOf())
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		if manifest.CheckPath(name) != nil || filepath.Base(name) != name || name[0] == '.' {
			return
		}
		checkBytes(t, name, data)
	})
}
