package chunkstore

import (
	"testing"

	"github.com/elasticd/elastic/pkg/checkpoint/chunkstore/readonly"
	"github.com/elasticd/elastic/pkg/checkpoint/dirfs/memfs"
	"github.com/elasticd/elastic/pkg/checkpoint/manifest"
	"github.com/elasticd/elastic/pkg/schema"
)

// FuzzDisk puts any bytes into a file of a node's disk. What is read of it is within the bounds of
// the records, and damage to lists that can be made again is no error.
func FuzzDisk(f *testing.F) {
	names := []string{readonly.Heads, readonly.Brought, readonly.Fingerprints, readonly.Generation}
	const head = `{"number":1,"generation":1,"manifest":"` +
		`e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","step":3,"bytes":5,"copies":1}`
	f.Add(uint8(0), []byte("["+head+"]"))
	f.Add(uint8(1), []byte(head))
	f.Add(uint8(2), []byte(`{"step-1":"12"}`))
	f.Add(uint8(3), []byte("18446744073709551615"))
	f.Fuzz(func(t *testing.T, which uint8, bytes []byte) {
		disk := memfs.New()
		name := names[int(which)%len(names)]
		memfs.WriteFile(t, disk, name, bytes, 0o600)
		outside := readonly.New(disk)
		heads, err := outside.Heads()
		must(t, err)
		_, err = outside.Newest()
		must(t, err)
		s, err := OpenFS(disk)
		if err != nil && name == readonly.Generation {
			return // the generation is what no node can do without
		}
		must(t, err)
		brought, err := s.Brought()
		must(t, err)
		if brought != nil {
			heads = append(heads, *brought)
		}
		for _, h := range append(heads, s.heads...) {
			if err := h.Validate(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if g := s.Generation(); g > schema.MaxGeneration {
			t.Errorf("generation %d", g)
		}
		_, err = s.Fingerprints()
		must(t, err)
		must(t, s.AddCommitted(manifest.Head{Number: 7, Generation: 1}))
	})
}

// A disk whose note of a brought checkpoint is damaged goes on without it.
func TestDamagedNoteOfABroughtCheckpoint(t *testing.T) {
	for _, bytes := range []string{"{", `{"number":18446744073709551615}`, `{"number":0}`} {
		disk := memfs.New()
		memfs.WriteFile(t, disk, readonly.Brought, []byte(bytes), 0o600)
		s := storeOn(t, disk)
		if brought, err := s.Brought(); brought != nil || err != nil {
			t.Errorf("%s: %v, %v", bytes, brought, err)
		}
		if _, err := disk.Lstat(readonly.Brought); err == nil {
			t.Errorf("%s stays on the disk", bytes)
		}
	}
}
