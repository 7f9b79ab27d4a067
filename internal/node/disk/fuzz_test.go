package disk

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzClaim recalls any bytes. What comes out may be written to a store: it is within the bounds of
// a record.
func FuzzClaim(f *testing.F) {
	f.Add([]byte(`{"server":"","claim":{"job":{"uid":"u","slots":1},"world":3,"count":2,"members":["a","b"]}}`))
	f.Add([]byte(`{"claim":{"job":{"uid":"u","slots":1099511627776},"world":18446744073709551615}}`))
	f.Add([]byte(`{"claim":{"job":{"uid":"../u"},"heads":[{"number":0}],"newest":{}}}`))
	d, err := Open(f.TempDir(), "x")
	if err != nil {
		f.Fatal(err)
	}
	if err := os.MkdirAll(d.JobDir("a"), 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		if err := os.WriteFile(filepath.Join(d.JobDir("a"), claimFile), bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := d.Recall("a")
		if err != nil {
			t.Errorf("it is no error that a claim is damaged: %v", err)
		}
		if c != nil && c.Validate() != nil {
			t.Errorf("%v: %+v", c.Validate(), c)
		}
		d.Others("b")
	})
}
