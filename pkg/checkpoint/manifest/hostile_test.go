package manifest

import (
	"bytes"
	"errors"
	"runtime"
	"testing"
)

// A manifest comes from another machine: the largest one that is nothing but empty files is refused
// before it takes more memory than it has bytes.
func TestEmptyFilesAreCheap(t *testing.T) {
	raw := append([]byte(`{"format":1,"files":[`), bytes.Repeat([]byte("{},"), (MaxSize-64)/3)...)
	raw = append(raw, "{}]}"...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Decode(raw)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, ErrBadManifest) {
		t.Errorf("%v", err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > MaxSize {
		t.Errorf("it took %d MiB", took>>20)
	}
}
