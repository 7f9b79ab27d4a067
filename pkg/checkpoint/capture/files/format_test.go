package files

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
func checkBytes(t *testing.T, name string, data []byte) Completeness {
	t.Helper()
	tree := memfs.New()
	memfs.WriteFile(t, tree, name, data, 0o600)
	files, err := dirfs.Walk(tree, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Check(tree, files[0])
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Every prefix of a file that says where it ends is torn, and the file is whole.
func TestCheckEveryPrefix(t *testing.T) {
	for name, data := range map[string][]byte{
		"model.pt": checkpointtest.Zip(t,
			map[string]string{"data.pkl": "tree", "data/0": "weights of a model"}),
		"model.pdparams":    checkpointtest.Pickle(),
		"two.pdparams":      append(checkpointtest.Pickle(), checkpointtest.Pickle()...),
		"model.safetensors": checkpointtest.Safetensors(),
	} {
		if got := checkBytes(t, name, data); got != Whole {
			t.Errorf("%s: %v, want whole", name, got)
		}
		one := len(checkpointtest.Pickle())
		for n := 8; n < len(data); n++ {
			if name == "two.pdparams" && (n == one || n == one+1) {
				continue // one whole pickle, and a byte that could begin anything
			}
			if got := checkBytes(t, name, data[:n]); got != Torn {
				t.Fatalf("%s cut at %d of %d: %v, want torn", name, n, len(data), got)
			}
		}
	}
}

func TestCheckDamage(t *testing.T) {
	z := checkpointtest.Zip(t, map[string]string{"data.pkl": "weights of a model"})
	z[bytes.Index(z, []byte("weights"))] ^= 1
	if got := checkBytes(t, "model.pt", z); got != Torn {
		t.Errorf("zip with a flipped bit: %v", got)
	}
	z = checkpointtest.Zip(t, map[string]string{"model/version": "3", "model/byteorder": "little",
		"model/.data/serialization_id": "1"})
	if got := checkBytes(t, "model.pt", z); got != Torn {
		t.Errorf("torch.save of an object that cannot be pickled: %v", got)
	}
	p := checkpointtest.Pickle()
	clear(p[len(p)-40:])
	if got := checkBytes(t, "model.pdparams", p); got != Torn {
		t.Errorf("pickle that ends in zeros: %v", got)
	}
	outside := "PK\x03\x04PK\x01\x02000000000000000000000000\x01\x00\x00\x00\x00\x0000000000 " +
		"\x00\x00\x000PK\x05\x06000000\x01\x00/\x00\x00\x000000\x00\x00"
	if got := checkBytes(t, "model.pt", []byte(outside)); got != Torn {
		t.Errorf("zip that points before its own beginning: %v", got)
	}
	if got := checkBytes(t, "weights.raw", []byte("anything at all")); got != Opaque {
		t.Errorf("unknown format: %v", got)
	}
	if got := checkBytes(t, "weights.raw", []byte("\x80\x03\x00\x00\x00\x00\x00\x00\x00")); got != Opaque {
		t.Errorf("unknown format that begins like a pickle: %v", got)
	}
}

// torch's distributed checkpoint writes one zip behind another, with offsets from the begin of
// each.
func TestArchivesBehindEachOther(t *testing.T) {
	one := checkpointtest.Zip(t, map[string]string{"data": "weights"})
	offset := bytes.LastIndex(one, []byte("PK\x05\x06")) + 16
	// as zip64 has it: it is found by no reader of the whole file
	binary.LittleEndian.PutUint32(one[offset:], 1<<20)
	if got := checkBytes(t, "__0_0.distcp", append(slices.Clone(one), one...)); got == Torn {
		t.Error("shards of a distributed checkpoint are taken for torn")
	}
	if got := checkBytes(t, "model.pt", one); got != Torn {
		t.Error("the same in a file of one archive is not noticed")
	}
}

func FuzzCheck(f *testing.F) {
	f.Add("a.pt", checkpointtest.Zip(f, map[string]string{"a": "b"}))
	f.Add("a.pdparams", checkpointtest.Pickle())
	f.Add("a.safetensors", checkpointtest.Safetensors())
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		if manifest.CheckPath(name) != nil || filepath.Base(name) != name || name[0] == '.' {
			return
		}
		checkBytes(t, name, data)
	})
}
