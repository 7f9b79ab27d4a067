package manifest

import (
	"bytes"
	"errors"
	"runtime"
	"testing"
)

// A manifest comes from another machine: the largest one that is nothing but small files, with a path
// or without, is refused before it takes more memory than it has bytes.
func TestEmptyFilesAreCheap(t *testing.T) {
	for _, file := range []string{`{}`, `{"path":"a"}`} {
		raw := []byte(`{"format":1,"files":[`)
		raw = append(raw, bytes.Repeat([]byte(file+","), (MaxSize-64)/(len(file)+1))...)
		raw = append(raw, file+"]}"...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Decode(raw)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrBadManifest) {
			t.Errorf("%s: %v", file, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > MaxSize {
			t.Errorf("%s: it took %d MiB", file, took>>20)
		} else {
			t.Logf("%s: it took %d KiB", file, took>>10)
		}
	}
}
