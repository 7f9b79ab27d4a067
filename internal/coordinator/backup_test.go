package coordinator

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A file is replaced by a whole backup, and by nothing else.
func TestSave(t *testing.T) {
	data := bytes.Repeat([]byte("etcd"), 256)
	sum := sha256.Sum256(data)
	whole := append(slices.Clone(data), sum[:]...)
	flipped := slices.Clone(whole)
	flipped[7] ^= 1
	file := filepath.Join(t.TempDir(), "B")
	if err := save(file, bytes.NewReader(whole)); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{"empty": nil, "cut": whole[:len(whole)-40],
		"without its sum": data, "flipped": flipped} {
		if err := save(file, bytes.NewReader(bad)); err == nil {
			t.Errorf("%s: no error", name)
		}
		if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, whole) {
			t.Errorf("%s: the file changed: %v", name, err)
		}
	}
	if list, err := os.ReadDir(filepath.Dir(file)); err != nil || len(list) != 1 {
		t.Errorf("left behind: %v, %v", list, err)
	}
}
