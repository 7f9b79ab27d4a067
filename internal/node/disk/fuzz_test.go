package disk

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzMemory recalls any bytes. What comes out is within the bounds of a record.
func FuzzMemory(f *testing.F) {
	f.Add([]byte(`{"server":"","claim":{"job":{"uid":"u","slots":1},"generation":3}}`))
	f.Add([]byte(`{"claim":{"job":{"uid":"u","slots":1099511627776},"generation":18446744073709551615}}`))
	f.Add([]byte(`{"claim":{"job":{"uid":"../u"},"known":{"number":0}}}`))
	d, err := Open(f.TempDir(), "x")
	if err != nil {
		f.Fatal(err)
	}
	if err := os.MkdirAll(d.JobDir("a"), 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		if err := os.WriteFile(filepath.Join(d.JobDir("a"), memoryFile), bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := d.Recall("a", "")
		if err != nil {
			t.Errorf("it is no error that the file is damaged: %v", err)
		}
		if m != nil && m.Validate() != nil {
			t.Errorf("%v: %+v", m.Validate(), m)
		}
	})
}
